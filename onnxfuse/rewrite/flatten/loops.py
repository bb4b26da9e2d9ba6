"""Loops that run a known, small number of times: their bodies stand one after the other in their place."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from onnx import GraphProto, NodeProto, helper, numpy_helper

from onnxfuse.model import schema
from onnxfuse.model.constants import Constants
from onnxfuse.model.editable import EditableModel
from onnxfuse.model.functions import all_nodes
from onnxfuse.model.graph import Node, Scope, subgraphs
from onnxfuse.model.weights.packing import tensors
from onnxfuse.rewrite.flatten.bodies import Parts, copies, instantiate, place
from onnxfuse.rewrite.flatten.branches import can_be_copied, known_truth
from onnxfuse.rewrite.flatten.names import Names
from onnxfuse.rewrite.steps import LOOP_UNROLLING
from onnxfuse.rewrite.trace import Fusion

# A Loop may run this often, and become this many nodes, which is no more than a reader or a runtime bears.
MAX_TRIPS = 16
MAX_NODES = 64

# A body with more elements in Constants stays if it runs more than once: each run would get a copy.
_MAX_REPEATED_ELEMENTS = 256

# Since this opset, the axes of an Unsqueeze are an input.
_AXES_ARE_AN_INPUT = 13


@dataclass(frozen=True)
class _Loop:
    """A Loop that can be written out."""

    node: Node
    body: GraphProto
    trips: int


def unroll(model: EditableModel, names: Names) -> Iterator[Fusion]:
    """Write out short Loops in the protobuf of a model, which is used up by this; yield the records.

    Of Loops in each other the inner ones come first: how many nodes the outer ones are is known only after that.
    """
    loops = {loop.node: loop for scope in model.scopes if scope.owner if (loop := _loop(scope, model.constants))}
    around = {outer for loop in loops for outer in _owners(loop.scope)}
    for scope in reversed(model.scopes):  # inner before outer: an outer graph copies the nodes that hold inner ones
        placed: dict[int, Parts] = {}
        for index, node in enumerate(scope.nodes):
            if node in loops and node not in around:
                placed[index] = _written_out(loops[node], names)
                yield placed[index].fusion(LOOP_UNROLLING, node)
        if placed:
            place(scope.proto, placed)


def _owners(scope: Scope | None) -> Iterator[Node]:
    while scope is not None and scope.owner is not None:
        yield scope.owner
        scope = scope.parent


def _loop(scope: Scope, constants: Constants) -> _Loop | None:
    """Return the Loop that a scope is the body of, if it runs a small known number of times."""
    node, body = scope.owner, scope.proto
    if node is None or node.op != "Loop" or node.domain or not isinstance(body, GraphProto) or len(node.inputs) < 2:
        return None
    trips = _trips(node, scope, constants)
    if trips is None or trips > MAX_TRIPS or not _is_well_formed(node, body):
        return None
    scans = node.outputs[len(node.inputs) - 2 :]
    nodes = list(all_nodes(body))
    if trips * len(nodes) > MAX_NODES or (trips == 0 and scans):
        return None
    if trips > 1 and not all(_may_be_repeated(inner, scope) for inner in nodes):
        return None
    copied = [scope.find(name) for name in copies(body)] if trips else list(node.inputs[2:])
    return _Loop(node, body, trips) if all(can_be_copied(value, scope) for value in copied) else None


def _trips(node: Node, scope: Scope, constants: Constants) -> int | None:
    """Return how often a Loop runs; None if that is not known."""
    limit, condition = node.inputs[:2]
    first = known_truth(condition, constants) if condition.name else True
    if first is False:
        return 0
    count = constants.small(limit) if limit.name and limit.constant else None
    if first is None or count is None or count.size != 1:
        return None
    return max(int(count.reshape(-1)[0]), 0) if _goes_on(scope, constants) else None


def _goes_on(scope: Scope, constants: Constants) -> bool:
    """Tell whether a body that has been entered never ends its Loop."""
    body = scope.proto
    assert isinstance(body, GraphProto)
    value = scope.find(body.output[0].name)
    while value is not None and value.producer is not None and value.producer.op == "Identity":
        value = value.producer.inputs[0]
    return value is not None and (value.name == body.input[1].name or known_truth(value, constants) is True)


def _is_well_formed(node: Node, body: GraphProto) -> bool:
    carried = len(node.inputs) - 2
    return len(body.input) == carried + 2 and carried + 1 <= len(body.output) >= len(node.outputs) + 1


def _may_be_repeated(node: NodeProto, scope: Scope) -> bool:
    """Tell whether a node of a body may stand there more than once: it is not random, and holds no large weight."""
    opset = scope.opsets.get("", 0)
    known = schema.domain_of(node.domain) == "" and schema.since(node.op_type, opset) > 0
    small = sum(math.prod(tensor.dims) for value in node.attribute for tensor in tensors(value))
    return known and node.op_type not in schema.IMPURE and small <= _MAX_REPEATED_ELEMENTS


def _written_out(loop: _Loop, names: Names) -> Parts:
    """Return the runs of a body one after the other; its weights are there once."""
    node, body = loop.node, loop.body
    prefix = f"{node.name or node.op}/"
    carried, wanted = [value.name for value in node.inputs[2:]], [value.name for value in node.outputs]
    if not loop.trips:
        pairs = zip(carried, wanted, strict=True)
        return Parts([helper.make_node("Identity", [a], [b], names.node(f"{b}/Identity")) for a, b in pairs if b])
    parts, shared = _weights(body, prefix, names)
    rows: list[list[str]] = []
    for trip in range(loop.trips):
        run = f"{prefix}{trip}/"
        given = dict(zip((value.name for value in body.input[2:]), carried, strict=True))
        given |= shared | _counters(body, trip, run, names, parts)
        results = [names.value(run + value.name) for value in body.output[1:]]
        if trip == loop.trips - 1:
            results[: len(carried)] = map(_or, wanted[: len(carried)], results)
        parts.extend(instantiate(body, given, ["", *results], names, run))
        carried = results[: len(carried)]
        rows.append(results[len(carried) :])
    for name, column in zip(wanted[len(carried) :], zip(*rows, strict=True), strict=False):
        if name:
            _stack(parts, name, column, loop, names)
    return parts


def _or(name: str, instead: str) -> str:
    return name or instead


def _weights(body: GraphProto, prefix: str, names: Names) -> tuple[Parts, dict[str, str]]:
    """Return the weights of a body under new names, and these by the old ones."""
    held = GraphProto(initializer=body.initializer, sparse_initializer=body.sparse_initializer)
    parts = instantiate(held, {}, [], names, prefix)
    old = [*(tensor.name for tensor in body.initializer), *(sparse.values.name for sparse in body.sparse_initializer)]
    new = [*(tensor.name for tensor in parts.weights), *(sparse.values.name for sparse in parts.sparse)]
    return parts, dict(zip(old, new, strict=True))


def _counters(body: GraphProto, trip: int, run: str, names: Names, parts: Parts) -> dict[str, str]:
    """Make weights of the number of a run and of the condition that it goes on, where the body reads them."""
    made: dict[str, str] = {}
    for value, number in zip(body.input[:2], (np.int64(trip), np.bool_(True)), strict=True):
        if value.name in set(_read(body)):
            array = np.asarray(number).reshape((1,) * len(value.type.tensor_type.shape.dim))
            made[value.name] = names.value(run + value.name)
            parts.weights.append(numpy_helper.from_array(array, made[value.name]))
    return made


def _read(body: GraphProto) -> Iterator[str]:
    yield from (value.name for value in body.output[1:])
    for node in all_nodes(body):
        yield from node.input
        for _, graph in subgraphs(node):
            yield from (value.name for value in graph.output)


def _stack(parts: Parts, name: str, rows: Sequence[str], loop: _Loop, names: Names) -> None:
    """Make of the values of all runs, a row each, what a Loop collects under a name."""
    operands: list[str] = []
    if loop.node.opset >= _AXES_ARE_AN_INPUT:
        operands.append(names.value(f"{name}/axes"))
        parts.weights.append(numpy_helper.from_array(np.asarray([0], np.int64), operands[0]))
    raised = [names.value(f"{row}/Unsqueeze") for row in rows] if len(rows) > 1 else [name]
    for row, result in zip(rows, raised, strict=True):
        node = helper.make_node("Unsqueeze", [row, *operands], [result], names.node(f"{row}/Unsqueeze"))
        node.attribute.extend([] if operands else [helper.make_attribute("axes", [0])])
        parts.nodes.append(node)
    if len(rows) > 1:
        parts.nodes.append(helper.make_node("Concat", raised, [name], names.node(f"{name}/Concat"), axis=0))
