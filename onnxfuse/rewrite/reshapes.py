"""Reshapes whose computed shape is known up to the dims that stay: they get a constant one."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from onnx import NodeProto, numpy_helper

from onnxfuse.model.constants import Constants
from onnxfuse.model.editable import EditableModel
from onnxfuse.model.elements import known_elements
from onnxfuse.model.graph import Dim, Node, Tensor, Value, Weight
from onnxfuse.rewrite.splice import constant_node, remove_dead
from onnxfuse.rewrite.steps import STATIC_RESHAPE
from onnxfuse.rewrite.trace import Fusion, WeightRecord, records


def make_static(model: EditableModel, constants: Constants) -> Iterator[tuple[Fusion, list[Node]]]:
    """Give Reshapes a constant shape where 0 (the dim stays) and numbers say what was computed.

    Yields for each the record and the new node.
    """
    for scope in model.scopes:
        for node in list(scope.in_order()):
            if node.alive and node.op == "Reshape" and not node.domain and len(node.inputs) == 2:
                shape = _static_shape(node, constants)
                if shape is not None:
                    yield _replace(model, node, shape)


def _static_shape(node: Node, constants: Constants) -> tuple[int, ...] | None:
    """Return the constant shape operand that means the same as the computed one; None if there is none.

    A single unknown dim may be -1 only where all others are numbers: a runtime cannot tell it if one of them is 0.
    """
    data, operand = node.inputs
    wanted = None if operand.constant else known_elements(operand, constants)
    if wanted is None or operand.dims == ():
        return None
    allow_zero = node.attrs.get("allowzero", 0) == 1
    dims = [_static_dim(data, axis, element, allow_zero) for axis, element in enumerate(wanted)]
    known = [dim for dim in dims if dim is not None]
    if len(known) == len(dims):
        return tuple(known)
    if len(known) == len(dims) - 1 and all(dim > 0 for dim in known):
        return tuple(-1 if dim is None else dim for dim in dims)
    return None


def _static_dim(data: Tensor, axis: int, element: Dim, allow_zero: bool) -> int | None:
    if isinstance(element, int):
        return None if element == 0 and allow_zero else element
    kept = data.dims is not None and axis < len(data.dims) and data.dims[axis] == element
    return 0 if element is not None and kept else None


def _replace(model: EditableModel, node: Node, shape: tuple[int, ...]) -> tuple[Fusion, list[Node]]:
    data, operand = node.inputs
    result, scope, before = node.outputs[0], node.scope, records([node])
    tensor = numpy_helper.from_array(np.asarray(shape, np.int64), model.fresh(f"{result.name}/shape"))
    node.detach()
    value: Tensor = Weight(tensor)
    extra: list[Node] = []
    if scope.is_function:
        value = Value(tensor.name, tensor.data_type, (len(shape),))
        extra.append(constant_node(scope, value, tensor, model.fresh(f"{tensor.name}/Constant")))
    else:
        scope.added.append(tensor)
    proto = NodeProto()
    if node.proto is not None:
        proto.doc_string = node.proto.doc_string
        proto.metadata_props.extend(node.proto.metadata_props)
    made = Node("Reshape", "", scope, [data, value], [result], {}, node.name, proto)
    for new in (*extra, made):
        new.position, new.rebuilt = node.position, True
    scope.replace(node, [*extra, made])
    remove_dead([operand])
    weights = () if scope.is_function else (WeightRecord(tensor.name, "int64", (len(shape),)),)
    step = STATIC_RESHAPE
    return Fusion(step, step, scope.path, before, records([made]), weights, (result.name,)), [made]
