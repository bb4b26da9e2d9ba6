"""Constant folding: values that depend on no input become initializers, unless that would make the file larger."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
from onnx import helper, numpy_helper

from onnxfuse.model.constants import Constants, above
from onnxfuse.model.editable import EditableModel
from onnxfuse.model.graph import Node, Value, Weight
from onnxfuse.rewrite.splice import constant_node, remove_dead, reread
from onnxfuse.rewrite.steps import CONSTANT_FOLDING
from onnxfuse.rewrite.trace import Fusion, WeightRecord, records

# A folded value of up to this many bytes is not worth asking what it replaces.
SMALL_BYTES = 1024


def fold_constants(model: EditableModel, constants: Constants) -> Iterator[tuple[Fusion, list[Node]]]:
    """Replace the computed constants that other nodes read by initializers of the same name.

    Generators of large tensors stay as they are, and so does whatever is larger than the weights that it replaces.
    Yields for each value the record and the nodes that read it.
    """
    chosen = _chosen(model)
    for scope in model.scopes:
        for node in list(scope.in_order()):
            if node.alive and node in chosen:
                yield _fold(model, node, constants)


def _chosen(model: EditableModel) -> set[Node]:
    """Return the nodes to fold: the last ones that may be, before whatever stays.

    Computed constants that are too large to be folded stay, and then what they read is folded.
    """
    staying: set[Node] = set()
    chosen: set[Node] = set()
    for scope in reversed(model.scopes):
        for node in reversed(list(scope.in_order())):
            if not all(value.constant for value in node.outputs):
                staying.add(node)
            elif any(value.pinned or not staying.isdisjoint(value.outputs) for value in node.outputs):
                (chosen if _may_be_folded(node) else staying).add(node)
    return chosen


def _may_be_folded(node: Node) -> bool:
    if node.op == "Constant" or len(node.outputs) != 1:
        return False
    value = node.outputs[0]
    return not value.pinned and _size(value) <= max(SMALL_BYTES, _replaced_bytes(value))


def _size(value: Value) -> float:
    """Return the bytes that a value takes; infinite if its shape is not known."""
    if value.elem_type is None or value.dims is None:
        return math.inf
    count = math.prod(dim if isinstance(dim, int) else math.inf for dim in value.dims)
    return count * np.dtype(helper.tensor_dtype_to_np_dtype(value.elem_type)).itemsize


def _replaced_bytes(value: Value) -> float:
    """Return the bytes of the weights that nobody needs once a value is folded."""
    total = 0.0
    for operand in above(value):
        if isinstance(operand, Weight) and len(operand.outputs) == 1:
            size = np.dtype(helper.tensor_dtype_to_np_dtype(operand.elem_type)).itemsize
            total += math.prod(operand.dims) * size
    return total


def _fold(model: EditableModel, node: Node, constants: Constants) -> tuple[Fusion, list[Node]]:
    value, scope = node.outputs[0], node.scope
    array = constants.array(value)
    # NumPy makes a scalar a vector of one here.
    tensor = numpy_helper.from_array(np.ascontiguousarray(array).reshape(array.shape), value.name)
    users = list(dict.fromkeys(value.outputs))
    before, operands = records([node]), list(node.inputs)
    node.detach()
    made: list[Node] = []
    weights: list[WeightRecord] = []
    if scope.is_function:
        made.append(constant_node(scope, value, tensor, model.fresh(f"{value.name}/Constant")))
        made[0].position = node.position
        scope.replace(node, made)
    else:
        weight = Weight(tensor)
        scope.added.append(tensor)
        reread(value, weight)  # by the same name: the protobufs of the readers stay true
        weights.append(WeightRecord.of(weight))
    remove_dead(operands)
    step = CONSTANT_FOLDING
    return Fusion(step, step, scope.path, before, records(made), tuple(weights), (value.name,)), users
