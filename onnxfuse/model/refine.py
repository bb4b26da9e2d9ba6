"""Shape inference carried on where onnx's stops: by the elements of the shapes that the graph computes.

onnx infers types; elements tell dims that these leave open; declared to onnx, those dims let it infer more.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from onnx import GraphProto, ModelProto

from onnxfuse.model import shapes
from onnxfuse.model.constants import Constants
from onnxfuse.model.elements import compute, shaped_dims
from onnxfuse.model.graph import Dims, Node, Scope, Value, mark_constant, subgraphs
from onnxfuse.model.shapes import TypeInfo

# How often dims are followed from one computed shape to the next; each time costs another inference.
MAX_PASSES = 8


def refine(scopes: Sequence[Scope], inferred: ModelProto, constants: Constants) -> None:
    """Fill in dims and elements of the values of a main graph and those nested in it.

    `inferred` is what onnx inferred of the model, and is used up.
    """
    for _ in range(MAX_PASSES):
        found = [list(_learn(scope, constants)) for scope in scopes]
        if not any(found):
            return
        for values, graph in zip(found, _graphs(inferred.graph), strict=True):
            _declare(values, graph)
        further = shapes.infer_further(inferred)
        if further is None:
            return
        inferred = further
        for scope, graph in zip(scopes, _graphs(inferred.graph), strict=True):
            _update(scope, graph)


def refine_functions(scopes: Sequence[Scope], constants: Constants) -> None:
    """Fill in dims and elements of the values of function bodies and the graphs nested in them, without onnx."""
    for _ in range(MAX_PASSES):
        if not [value for scope in scopes for value in _learn(scope, constants)]:
            return


def _declare(values: Sequence[Value], graph: GraphProto) -> None:
    """Write what has been learned of values into the graph that gives them."""
    infos = {info.name: info for info in (*graph.value_info, *graph.output)}
    for value in values:
        info = shapes.value_info(value.name, TypeInfo(value.elem_type, value.dims))
        if value.name in infos:
            infos[value.name].CopyFrom(info)
        else:
            graph.value_info.append(info)


def _learn(scope: Scope, constants: Constants) -> Iterator[Value]:
    """Go through the nodes of a scope once; yield the values of which more dims are known than before."""
    for node in scope.nodes:
        if not node.outputs:
            continue
        value = node.outputs[0]
        if not value.constant:
            _learn_elements(node, value, constants)
        dims = _merged(value.dims, shaped_dims(node, constants))
        if dims != value.dims and value.elem_type is not None:
            value.shape = dims
            yield value


def _learn_elements(node: Node, value: Value, constants: Constants) -> None:
    mark_constant(node)  # an operand may have turned out to be constant
    elements = None if value.constant else compute(node, constants)
    value.elements = elements if elements is not None and any(e is not None for e in elements) else None
    value.constant |= value.elements is not None and all(isinstance(e, int) for e in value.elements)


def _merged(known: Dims, told: Dims) -> Dims:
    if known is None or told is None or len(known) != len(told):
        return told if known is None else known
    return tuple(
        b if a is None or (shapes.made_up(a) and b is not None) else a for a, b in zip(known, told, strict=True)
    )


def _graphs(graph: GraphProto) -> Iterator[GraphProto]:
    """Yield a graph and those nested in it, in the order of an editable model's scopes."""
    yield graph
    for node in graph.node:
        for _, inner in subgraphs(node):
            yield from _graphs(inner)


def _update(scope: Scope, graph: GraphProto) -> None:
    known = shapes.known_types(graph)
    for node in scope.nodes:
        for value in node.outputs:
            if value.name in known:
                old = TypeInfo(value.elem_type, value.dims)
                value.dtype, value.shape = shapes.overlay({"": old}, {"": known[value.name]})[""]
