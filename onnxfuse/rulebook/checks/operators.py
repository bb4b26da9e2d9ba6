"""What the operator schemas say of a line of a text: the operator, its attributes and their types, its operands."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from onnx import AttributeProto, defs

from onnxfuse.model import schema
from onnxfuse.model.attributes import Attribute, write
from onnxfuse.rulebook.rule import FORM, Bound, TextNode
from onnxfuse.rulebook.syntax.kinds import suggestion

_KINDS: Final[Mapping[int, defs.OpSchema.AttrType]] = {
    AttributeProto.INT: defs.OpSchema.AttrType.INT,
    AttributeProto.FLOAT: defs.OpSchema.AttrType.FLOAT,
    AttributeProto.STRING: defs.OpSchema.AttrType.STRING,
    AttributeProto.INTS: defs.OpSchema.AttrType.INTS,
    AttributeProto.FLOATS: defs.OpSchema.AttrType.FLOATS,
    AttributeProto.STRINGS: defs.OpSchema.AttrType.STRINGS,
    AttributeProto.TENSOR: defs.OpSchema.AttrType.TENSOR,
}


def line_problems(node: TextNode, opset: int) -> Iterator[tuple[str, str]]:
    """Yield what is wrong with a line at the opset of its text, each with a fix."""
    if node.domain == FORM:
        return
    found = schema.schema(node.op, opset, node.domain)
    if found is None or found.deprecated:
        name = f"{node.domain}.{node.op}" if node.domain else node.op
        yield f"there is no operator {name} at opset {opset}", "correct its name, or the opset of the text"
        return
    yield from _attribute_problems(node, found, opset)
    if not found.min_input <= len(node.inputs) <= found.max_input:
        wanted = _range(found.min_input, found.max_input)
        yield f"{node.op} takes {wanted} inputs, not {len(node.inputs)}", "write those that it has"
    if not found.min_output <= len(node.outputs) <= found.max_output:
        wanted = _range(found.min_output, found.max_output)
        yield f"{node.op} gives {wanted} outputs, not {len(node.outputs)}", "write those that it has"


def _range(least: int, most: int) -> str:
    return str(least) if least == most else f"{least} to {most}"


def _attribute_problems(node: TextNode, found: defs.OpSchema, opset: int) -> Iterator[tuple[str, str]]:
    for name, value in node.attributes.items():
        spec = found.attributes.get(name)
        if spec is None:
            hint = suggestion(name, found.attributes)
            yield f"{node.op} has no attribute '{name}' at opset {opset}{hint}", "correct or remove it"
        elif not isinstance(value, Bound) and spec.type not in (_kind(name, value), _empty(value, spec.type)):
            wanted = str(spec.type).rpartition(".")[2].lower()
            yield f"'{name}' of {node.op} is of type {wanted}", f"write <{name}: {wanted} = ...>"
    for name, spec in found.attributes.items():
        if spec.required and name not in node.attributes:
            yield f"{node.op} needs the attribute '{name}'", "write it"


def _kind(name: str, value: Attribute) -> defs.OpSchema.AttrType | None:
    return _KINDS.get(write(name, value).type)


def _empty(value: Attribute, kind: defs.OpSchema.AttrType) -> defs.OpSchema.AttrType | None:
    """Return the kind itself for an empty list, whose kind cannot be told."""
    return kind if value == () else None
