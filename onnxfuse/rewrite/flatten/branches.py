"""Ifs whose condition is known: the branch that is always taken stands in their place."""

from __future__ import annotations

from collections.abc import Iterator

from onnx import GraphProto

from onnxfuse.model.constants import Constants
from onnxfuse.model.editable import EditableModel
from onnxfuse.model.graph import Node, Scope, Tensor, subgraphs
from onnxfuse.rewrite.flatten.bodies import Parts, copies, instantiate, place
from onnxfuse.rewrite.flatten.names import Names
from onnxfuse.rewrite.steps import CONSTANT_IF
from onnxfuse.rewrite.trace import Fusion

# Since this opset, Identity passes on whatever a value may be; before, only tensors for sure.
_IDENTITY_OF_ANYTHING = 16


def take_branches(model: EditableModel, names: Names) -> Iterator[Fusion]:
    """Replace the constant Ifs in the protobuf of a model, which is used up by this; yield the records."""
    chosen = {node: branch for node in model.nodes if (branch := _taken(node, model.constants)) is not None}
    for scope in reversed(model.scopes):  # inner before outer: an outer graph copies the nodes that hold inner ones
        placed: dict[int, Parts] = {}
        for index, node in enumerate(scope.nodes if _stays(scope, chosen) else ()):
            if node in chosen and node.proto is not None:
                for _, branch in subgraphs(node.proto):
                    names.release(branch)
                placed[index] = instantiate(chosen[node], {}, list(node.proto.output), names)
                yield placed[index].fusion(CONSTANT_IF, node)
        if placed:
            place(scope.proto, placed)


def _taken(node: Node, constants: Constants) -> GraphProto | None:
    """Return the branch that an If always takes; None if that is not known or cannot stand in its place."""
    condition = known_truth(node.inputs[0], constants) if node.op == "If" and not node.domain and node.inputs else None
    if condition is None or node.proto is None:
        return None
    branch = dict(subgraphs(node.proto)).get("then_branch" if condition else "else_branch")
    if branch is None or len(branch.output) < len(node.outputs):
        return None
    weights = {tensor.name for tensor in branch.initializer}
    copied = [name for name in copies(branch) if name not in weights]
    return branch if all(can_be_copied(node.scope.find(name), node.scope) for name in copied) else None


def known_truth(value: Tensor, constants: Constants) -> bool | None:
    """Return whether a condition is always true or always false; None if that is not known."""
    array = constants.small(value) if value.name and value.constant else None
    return None if array is None or array.size != 1 else bool(array.reshape(-1)[0])


def can_be_copied(value: Tensor | None, scope: Scope) -> bool:
    """Tell whether an Identity passes a value on: before opset 16, not every value that is no tensor."""
    return scope.opset >= _IDENTITY_OF_ANYTHING or (value is not None and value.elem_type is not None)


def _stays(scope: Scope, chosen: dict[Node, GraphProto]) -> bool:
    """Tell whether a scope is in no branch that goes."""
    inner: Scope | None = scope
    while inner is not None and inner.owner is not None:
        if inner.owner in chosen and inner.proto is not chosen[inner.owner]:
            return False
        inner = inner.parent
    return True
