"""Element types of the values of a text, carried from its inputs through its lines as the operator schemas say."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache

from onnx import AttributeProto, TensorProto, defs

from onnxfuse.model import schema
from onnxfuse.model.attributes import Attribute
from onnxfuse.rulebook.instantiate import resolve
from onnxfuse.rulebook.load import ELEMENT_TYPES
from onnxfuse.rulebook.rule import TextNode

_FLOATS = frozenset({TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.BFLOAT16, TensorProto.DOUBLE})


class NotAllowed(Exception):
    """An operator does not take an element type at an opset; the message says so."""


def element_types(
    lines: Sequence[TextNode],
    inputs: Mapping[str, int],
    values: Mapping[str, Attribute | None],
    opset: int,
    main: int,
) -> dict[str, int]:
    """Return the element type of every value.

    A floating-point constant has the type that its reader needs, `main` where no reader tells.  Raises NotAllowed.
    """
    types = dict(inputs)
    for _ in range(3):  # a constant may stand before the line that gives its partner a type
        for line in lines:
            _carry(line, types, values, opset)
    for line in lines:
        if line.op == "Constant" and line.outputs[0] not in types:
            types[line.outputs[0]] = _partner_type(line.outputs[0], lines, types) or main
    for line in lines:
        _carry(line, types, values, opset)
        _check(line, types, opset)
    return types


def _carry(line: TextNode, types: dict[str, int], values: Mapping[str, Attribute | None], opset: int) -> None:
    if line.op == "Constant" and not line.domain:
        known = constant_type(line)
        if known is not None:
            types[line.outputs[0]] = known
        return
    formals = [*_formals(line, opset), *_formal_outputs(line, opset)]
    meanings = {kind: types[name] for name, kind in formals if name in types}
    for name, kind in _formals(line, opset):
        if name not in types and kind in meanings:
            types[name] = meanings[kind]
    to = resolve(line, values).get("to")
    for name, kind in _formal_outputs(line, opset):
        found = int(to) if line.op == "Cast" and isinstance(to, int) else meanings.get(kind) or concrete(kind)
        if name and found is not None:
            types.setdefault(name, found)


def constant_type(line: TextNode) -> int | None:
    """Return the element type of a Constant line; None for floating point, which takes what its reader needs."""
    ((kind, value),) = line.attributes.items()
    if isinstance(value, AttributeProto):
        return None if value.t.data_type in _FLOATS else int(value.t.data_type)
    return None if kind in ("value_float", "value_floats") else TensorProto.INT64


def _partner_type(name: str, lines: Iterable[TextNode], types: Mapping[str, int]) -> int | None:
    readers = (line for line in lines if name in line.inputs)
    return next((types[other] for line in readers for other in line.inputs if types.get(other) in _FLOATS), None)


def _check(line: TextNode, types: Mapping[str, int], opset: int) -> None:
    if line.op == "Constant":
        return
    allowed = _allowed(line.op, opset, line.domain)
    for name, kind in (*_formals(line, opset), *_formal_outputs(line, opset)):
        written = type_string(types[name]) if name in types else ""
        if written and written not in allowed.get(kind, [kind]):
            raise NotAllowed(f"{line.op} takes no {written} at opset {opset}")


def _formals(line: TextNode, opset: int) -> Iterator[tuple[str, str]]:
    return _paired(line.inputs, _kinds(line.op, opset, line.domain)[0])


def _formal_outputs(line: TextNode, opset: int) -> Iterator[tuple[str, str]]:
    return _paired(line.outputs, _kinds(line.op, opset, line.domain)[1])


@cache
def _kinds(op: str, opset: int, domain: str) -> tuple[tuple[tuple[str, ...], bool], tuple[tuple[str, ...], bool]]:
    """Return the type strings of an operator's inputs and of its outputs, each with whether the last is variadic."""
    found = schema.schema(op, opset, domain)
    return (_strings(found.inputs), _strings(found.outputs)) if found is not None else (((), False), ((), False))


def _strings(formals: Sequence[defs.OpSchema.FormalParameter]) -> tuple[tuple[str, ...], bool]:
    variadic = bool(formals) and formals[-1].option == defs.OpSchema.FormalParameterOption.Variadic
    return tuple(formal.type_str for formal in formals), variadic


def _paired(names: Sequence[str], formals: tuple[tuple[str, ...], bool]) -> Iterator[tuple[str, str]]:
    """Pair names with the type strings of formal parameters, the last of which may be variadic."""
    kinds, variadic = formals
    for index, name in enumerate(names):
        if name and (index < len(kinds) or variadic):
            yield name, kinds[min(index, len(kinds) - 1)]


@cache
def _allowed(op: str, opset: int, domain: str) -> dict[str, frozenset[str]]:
    found = schema.schema(op, opset, domain)
    constraints = () if found is None else found.type_constraints
    return {constraint.type_param_str: frozenset(constraint.allowed_type_strs) for constraint in constraints}


def concrete(kind: str) -> int | None:
    """Return the number of "tensor(int64)"; None for a type variable."""
    return ELEMENT_TYPES.get(kind.removeprefix("tensor(").removesuffix(")"))


@cache
def type_string(elem_type: int) -> str:
    """Return "tensor(int64)" for the number of int64."""
    return f"tensor({TensorProto.DataType.Name(elem_type).lower()})"
