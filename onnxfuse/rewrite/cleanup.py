"""Clean-up that needs no rule, since it changes no value: nodes that only pass a value on, and equal nodes."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence

from onnx import AttributeProto

from onnxfuse.model import schema
from onnxfuse.model.attributes import Attribute
from onnxfuse.model.constants import Constants
from onnxfuse.model.editable import EditableModel
from onnxfuse.model.graph import Node, Scope, Tensor, Value
from onnxfuse.rewrite.noops import does_nothing
from onnxfuse.rewrite.splice import remove_dead, reread
from onnxfuse.rewrite.steps import COMMON_SUBEXPRESSION, IDENTITY, NO_OP, SAME_TYPE_CAST
from onnxfuse.rewrite.trace import Fusion, records


def passes_on(node: Node, constants: Constants) -> str:
    """Return the step that removes a node which gives the value it reads; "" if it does more than that."""
    if does_nothing(node, constants):
        return NO_OP
    if node.domain or len(node.inputs) != 1 or len(node.outputs) != 1 or not node.inputs[0].name:
        return ""
    if node.op == "Identity":
        return IDENTITY
    known = node.inputs[0].elem_type
    return SAME_TYPE_CAST if node.op == "Cast" and known is not None and node.attrs.get("to") == known else ""


def bypass(node: Node, step: str) -> tuple[Fusion, list[Node]] | None:
    """Remove a node that passes its input on; return the record and the nodes that now read another value.

    None if both values must keep their names, as where a graph input becomes a graph output.
    """
    source, result = node.inputs[0], node.outputs[0]
    kept: Tensor
    before, operands = records([node]), node.inputs[1:]
    if not result.pinned and reachable(source, result):
        users = list(dict.fromkeys(result.outputs))
        node.detach()
        redirect(result, source)
        kept = source
    elif _can_rename(source, result):
        giver = source.producer
        assert giver is not None
        users = [giver, *dict.fromkeys(source.outputs)]
        node.detach()
        redirect(source, result)
        giver.outputs[next(i for i, value in enumerate(giver.outputs) if value is source)] = result
        giver.rebuilt = True
        kept = result
    else:
        return None
    remove_dead(operands)
    fusion = Fusion(step, step, node.scope.path, before, (), outputs=(kept.name,))
    return fusion, [user for user in users if user.alive]


def _can_rename(source: Tensor, result: Value) -> bool:
    """Tell whether the producer of `source` can give `result` instead, so that a graph output keeps its name."""
    producer = source.producer
    same_scope = producer is not None and producer.scope is result.inputs[0].scope
    return same_scope and not source.pinned and not source.constant and reachable(result, source)


def reachable(value: Tensor, instead_of: Value) -> bool:
    """Tell whether all readers of `instead_of` can read `value` by name: no nearer scope gives the name to another."""
    return all(user.scope.find(value.name) in (value, None) for user in instead_of.outputs)


def redirect(old: Tensor, new: Tensor) -> None:
    """Let every reader of one value read another of another name."""
    for user in reread(old, new):
        user.rebuilt = True


def merge_equal_nodes(model: EditableModel, constants: Constants) -> Iterator[tuple[Fusion, list[Node]]]:
    """Merge nodes of one scope that compute the same value from the same inputs; never random or control-flow ones.

    Yields for each merge the record and the nodes that now read another value.
    """
    for scope in model.scopes:
        seen: dict[Hashable, Node] = {}
        for node in scope.in_order():
            key = _identity_of(node, constants) if _mergeable(node) else None
            if key is None:
                continue
            first = seen.get(key)
            if first is None or not first.alive:
                first = seen[key] = node
            if first is not node and (merged := _merge(first, node, scope)):
                yield merged


def _mergeable(node: Node) -> bool:
    pure = schema.is_pure(node.op, node.opset, node.domain)
    return pure and not any(value.constant and value.name for value in node.outputs)


def _identity_of(node: Node, constants: Constants) -> Hashable | None:
    """Return what two nodes have in common if they compute the same; None if that cannot be told.

    Computed shapes whose elements are all known, as numbers or as names of dims, are the same however computed.
    """
    value = node.outputs[0]
    if value.elements is not None and None not in value.elements and len(node.outputs) == 1:
        return value.elem_type, value.dims == (), value.elements
    attributes = tuple(sorted((name, _key(value)) for name, value in node.attrs.items()))
    if any(key is None for _, key in attributes):
        return None
    return (
        node.op,
        node.opset,
        attributes,
        tuple(_operand(value, constants) for value in node.inputs),
        len(node.outputs),
    )


def _key(value: Attribute) -> Hashable | None:
    if not isinstance(value, AttributeProto):
        return repr(value)
    tensor = value.type == AttributeProto.TENSOR and not value.ref_attr_name
    return value.SerializeToString(deterministic=True) if tensor else None


def _operand(value: Tensor, constants: Constants) -> Hashable:
    """Return what tells an operand apart: its elements if it is a small constant, else itself."""
    if not value.name:
        return ""
    array = constants.small(value) if value.constant else None
    if array is None or array.dtype.hasobject:
        return value
    return value.elem_type, array.shape, array.tobytes()


def _merge(first: Node, second: Node, scope: Scope) -> tuple[Fusion, list[Node]] | None:
    pairs: Sequence[tuple[Value, Value]] = list(zip(first.outputs, second.outputs, strict=True))
    if any(old.pinned or not reachable(new, old) or bool(old.name) != bool(new.name) for new, old in pairs):
        return None
    kept = tuple(value.name for value in first.outputs)
    fusion = Fusion(COMMON_SUBEXPRESSION, first.label(), scope.path, records([second]), records([first]), outputs=kept)
    operands = list(second.inputs)
    second.detach()
    for new, old in pairs:
        redirect(old, new)
    remove_dead(operands)
    return fusion, [first, *(user for value in first.outputs for user in value.outputs)]
