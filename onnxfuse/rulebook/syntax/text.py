"""ONNX text to `Text`: parsed by onnx.parser, then checked for what that parser lets pass in silence."""

from __future__ import annotations

import re
from dataclasses import dataclass
from math import prod

import onnx
from onnx import AttributeProto, FunctionProto, GraphProto, NodeProto, TensorProto

from onnxfuse.model import attributes, schema
from onnxfuse.model.attributes import Attribute
from onnxfuse.rulebook.rule import FORM, Bound, Text, TextNode
from onnxfuse.rulebook.syntax.limits import MAX_LINES, onnx_code, onnx_excess

_POSITION = re.compile(r"line: (\d+) column: (\d+)")
# Numbers that no 64 bits hold are not the parser's own errors.
_PARSE_ERRORS = (onnx.parser.ParseError, IndexError, ValueError, RuntimeError)
_REFERENCE_IN_LIST = re.compile(r"\[[^\]]*@")
_BARE_FRACTION = re.compile(r"(?<![\w.])\.\d")


@dataclass
class TextError(Exception):
    """A text is wrong: why, and where in it (both from 1)."""

    reason: str
    line: int = 1
    column: int = 1


def parse_text(text: str, name: str, opset: int) -> Text:
    """Read one side of a rule.

    Raises TextError with the place in `text`.
    """
    _check_size(text)
    _check_silent_traps(text)
    header = f'<domain: "rule", opset_import: ["": {opset}, "{FORM}": 1]> rule\n'
    try:
        function = onnx.parser.parse_function(header + text)
    except _PARSE_ERRORS as error:
        raise _located(error) from error
    _check_silent_losses(text, function)
    if len(function.node) > MAX_LINES:
        raise TextError(f"a text has at most {MAX_LINES} operators, not {len(function.node)}")
    nodes = tuple(_node(node) for node in function.node)
    return Text(name, opset, tuple(function.input), tuple(function.output), nodes)


def parse_node(text: str) -> TextNode:
    """Read a single node, such as the value that an absent input stands for.

    Raises TextError with the place in `text`.
    """
    head = "(x) => (y) {"
    try:
        nodes = parse_text(f"{head}{text}\n}}", "node", 1).nodes
    except TextError as error:
        column = error.column - (len(head) if error.line == 1 else 0)
        raise TextError(error.reason, error.line, max(1, column)) from error
    if len(nodes) != 1:
        raise TextError(f"one operator is wanted here, not {len(nodes)}")
    return nodes[0]


def check_graph(text: str) -> None:
    """Check that a text is an ONNX graph that holds all its data itself.

    Raises TextError with the place in `text`.
    """
    _check_size(text)
    _check_silent_traps(text)
    try:
        graph = onnx.parser.parse_graph(text)
    except _PARSE_ERRORS as error:
        raise _located(error, header_lines=0) from error
    if _reads_files(graph):
        raise TextError("a rule's graph cannot read its data from files")
    for tensor in graph.initializer:
        if _elements(tensor) != prod(tensor.dims):
            raise _at_name(text, tensor.name, f"'{tensor.name}' has not as many numbers as its dims say")


def _reads_files(graph: GraphProto) -> bool:
    if any(tensor.external_data or tensor.data_location for tensor in graph.initializer):
        return True
    return any(
        _reads_files(attribute.g) for node in graph.node for attribute in node.attribute if attribute.HasField("g")
    )


def _check_size(text: str) -> None:
    if excess := onnx_excess(text):
        raise _at(text, excess[1], excess[0])


def _node(proto: NodeProto) -> TextNode:
    return TextNode(
        op=proto.op_type,
        domain=schema.domain_of(proto.domain),
        label=proto.name,
        inputs=tuple(proto.input),
        outputs=tuple(proto.output),
        attributes={a.name: _attribute(a) for a in proto.attribute},
    )


def _attribute(proto: AttributeProto) -> Attribute | Bound:
    return Bound(proto.ref_attr_name) if proto.ref_attr_name else attributes.read(proto)


def _elements(tensor: TensorProto) -> int:
    """Return how many elements a tensor holds that was read from text."""
    held = (tensor.float_data, tensor.int32_data, tensor.int64_data, tensor.double_data, tensor.uint64_data)
    return sum(map(len, held)) + len(tensor.string_data)


def _check_silent_losses(text: str, function: FunctionProto) -> None:
    """Refuse what onnx.parser reads and we leave out: types, declared attributes, all but the last of equal ones."""
    if function.value_info:
        name = function.value_info[0].name
        raise _at_name(text, name, f"the type of '{name}' says nothing here: say it in the guard in [inputs]")
    if declared := [*function.attribute, *(attribute.name for attribute in function.attribute_proto)]:
        reason = f"a text declares no attribute such as '{declared[0]}': say its default in [attributes]"
        raise _at_name(text, declared[0], reason)
    for node in function.node:
        names = [attribute.name for attribute in node.attribute]
        if twice := next((name for name in names if names.count(name) > 1), ""):
            raise _at_name(text, twice, f"{node.op_type} is given '{twice}' twice")


def _check_silent_traps(text: str) -> None:
    """Refuse what onnx.parser accepts and changes, or has no words for.

    References inside a list, anything after the function or graph, numbers that begin with a point.
    """
    code = onnx_code(text)
    if found := _BARE_FRACTION.search(code):
        raise _at(text, found.start(), f"a number begins with a digit: 0{found.group()}")
    if found := _REFERENCE_IN_LIST.search(code):
        raise _at(text, found.end() - 1, "an attribute reference cannot stand inside a list: bind the whole list")
    end = _end_of_body(code)
    if end is not None and (rest := code[end:].strip()):
        raise _at(text, code.index(rest, end), "text after the closing brace")


def _end_of_body(code: str) -> int | None:
    """Return the index after the brace that closes the body; braces in a graph's <...> before it hold numbers."""
    depth = angles = 0
    for found in re.finditer(r"=>|[<>{}]", code):
        character = found.group()
        if depth == 0 and character in "<>":
            angles += 1 if character == "<" else -1
        elif angles <= 0 and character in "{}":
            depth += 1 if character == "{" else -1
            if depth == 0:
                return found.end()
    return None


def _at(text: str, position: int, reason: str) -> TextError:
    before = text[:position]
    return TextError(reason, before.count("\n") + 1, position - before.rfind("\n"))


def _at_name(text: str, name: str, reason: str) -> TextError:
    """Return an error at the first place where a name stands."""
    found = re.search(rf"(?<![\w.]){re.escape(name)}\b", onnx_code(text))
    return _at(text, found.start() if found else 0, reason)


def _located(error: Exception, header_lines: int = 1) -> TextError:
    """Return onnx.parser's error, whose text is the repr of bytes, with its place counted without our header line."""
    if not isinstance(error, onnx.parser.ParseError):
        return TextError("a number is out of range")
    message = str(error).removeprefix("b'").removesuffix("'").replace("\\n", "\n").replace("\\'", "'")
    found = _POSITION.search(message)
    reason = message.strip().splitlines()[-1].strip() if message.strip() else "not ONNX text"
    if found is None:
        return TextError(reason)
    return TextError(reason, max(1, int(found[1]) - header_lines), int(found[2]))
