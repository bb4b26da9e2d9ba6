"""Ranks that onnx's shape inference leaves open although the graph tells them.

A value shaped by a computed shape has as many dims as that shape has elements, whatever these are.
"""

from __future__ import annotations

from collections import ChainMap

from onnx import AttributeProto, GraphProto, ModelProto, NodeProto, TypeProto

# The operand that is the shape of the result.
_SHAPE_OPERANDS = {"Reshape": 1, "Expand": 1, "ConstantOfShape": 0}


def declare(proto: ModelProto) -> bool:
    """Give values the ranks that follow from their shape operands; tell whether any of these was not known before.

    `proto` is what onnx inferred; with the new ranks it can infer more.
    """
    return _declare(proto.graph, ChainMap())


def _declare(graph: GraphProto, outer: ChainMap[str, TypeProto]) -> bool:
    types = outer.new_child({info.name: info.type for info in (*graph.value_info, *graph.output, *graph.input)})
    found = False
    for node in graph.node:
        if node.op_type in _SHAPE_OPERANDS and not node.domain:
            found |= _declare_rank(node, types)
        for attribute in node.attribute:
            if attribute.type == AttributeProto.GRAPH:
                found |= _declare(attribute.g, types)
    return found


def _declare_rank(node: NodeProto, types: ChainMap[str, TypeProto]) -> bool:
    result = types.get(node.output[0])
    if result is None or not result.tensor_type.elem_type or result.tensor_type.HasField("shape"):
        return False
    rank = _length(types.get(node.input[_SHAPE_OPERANDS[node.op_type]]))
    if rank is not None and node.op_type == "Expand":
        given = types.get(node.input[0])
        known = given is not None and given.tensor_type.HasField("shape")
        rank = max(rank, len(given.tensor_type.shape.dim)) if given is not None and known else None
    if rank is None:
        return False
    result.tensor_type.shape.SetInParent()
    for _ in range(rank):
        result.tensor_type.shape.dim.add()
    return True


def _length(shape: TypeProto | None) -> int | None:
    """Return how many elements a vector has, None if that is not known."""
    dims = shape.tensor_type.shape.dim if shape is not None else ()
    return int(dims[0].dim_value) if len(dims) == 1 and dims[0].HasField("dim_value") else None
