"""A text with its form calls written out: one spelling for each way to choose the forms' spellings."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import product

from onnxfuse.model import schema
from onnxfuse.rulebook.rule import FORM, ConstantSpec, Rulebook, Text, TextNode


@dataclass(frozen=True)
class Line:
    """A line of a text, the opset it was written at, and what its text says of it as a constant."""

    node: TextNode
    opset: int
    spec: ConstantSpec | None = None


@dataclass(frozen=True)
class Spelling:
    """Lines without form calls; `name` says which spellings of which forms were chosen."""

    name: str
    lines: tuple[Line, ...]


def spellings(text: Text, book: Rulebook) -> Iterator[Spelling]:
    """Yield every spelling of a text, its lines in their newest form: an attribute that became an input is one."""
    for name, lines in _written_out(text, book, ""):
        yield Spelling(name, tuple(modern for line in lines for modern in modernised(line)))


def _written_out(text: Text, book: Rulebook, prefix: str) -> Iterator[tuple[str, tuple[Line, ...]]]:
    choices: list[list[tuple[str, tuple[Line, ...]]]] = []
    for number, node in enumerate(text.nodes):
        if node.domain == FORM:
            choices.append(list(_form_spellings(node, book, f"{prefix}{number}.")))
        else:
            spec = text.constants.get(node.outputs[0].removeprefix(prefix))
            choices.append([("", (Line(node, text.opset, spec),))])
    for chosen in product(*choices):
        yield ", ".join(name for name, _ in chosen if name), tuple(line for _, lines in chosen for line in lines)


def _form_spellings(call: TextNode, book: Rulebook, inside: str) -> Iterator[tuple[str, tuple[Line, ...]]]:
    for number, spelling in enumerate(book.forms[call.op]):
        names = dict(zip((*spelling.inputs, *spelling.outputs), (*call.inputs, *call.outputs), strict=True))
        body = replace(spelling, nodes=tuple(_renamed(node, names, inside) for node in spelling.nodes))
        for name, lines in _written_out(body, book, inside):
            yield f"{call.op} {number + 1}" + (f" ({name})" if name else ""), lines


def _renamed(node: TextNode, names: dict[str, str], inside: str) -> TextNode:
    def name(old: str) -> str:
        return names.get(old, inside + old) if old else old

    return replace(node, inputs=tuple(map(name, node.inputs)), outputs=tuple(map(name, node.outputs)))


def modernised(line: Line) -> Iterator[Line]:
    """Yield a line whose attributes that later became inputs are inputs, after the constants that those read."""
    node = line.node
    inputs, attributes = list(node.inputs), dict(node.attributes)
    for index, name in schema.moved(node.op, line.opset, node.domain).items():
        if name not in attributes:
            continue
        value = attributes.pop(name)
        kind = "value_float" if isinstance(value, float) else "value_int" if isinstance(value, int) else "value_ints"
        inputs += [""] * (index + 1 - len(inputs))
        inputs[index] = f"{node.outputs[0]}.{name}"
        yield Line(TextNode("Constant", "", "", (), (inputs[index],), {kind: value}), line.opset)
    yield (
        line
        if attributes == node.attributes
        else replace(line, node=replace(node, inputs=tuple(inputs), attributes=attributes))
    )
