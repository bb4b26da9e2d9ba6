"""Copying a body into the graph around it, under names that mean nothing else there.

Works on protobufs, so that whatever a body holds (types, annotations, metadata) comes along; the editable graph is read
anew afterwards, and with it the types that only follow once a body's inputs are known.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TypeVar

from onnx import (
    AttributeProto,
    FunctionProto,
    GraphProto,
    NodeProto,
    SparseTensorProto,
    TensorAnnotation,
    TensorProto,
    ValueInfoProto,
)

from onnxfuse.model.graph import Node, subgraphs
from onnxfuse.rewrite.flatten.names import Body, Names, outputs, own
from onnxfuse.rewrite.trace import Fusion, NodeRecord, records

_Message = TypeVar("_Message", NodeProto, TensorProto, SparseTensorProto, ValueInfoProto, TensorAnnotation)


@dataclass
class Parts:
    """What stands in the place of a node: nodes, and what belongs to them."""

    nodes: list[NodeProto] = field(default_factory=list)
    weights: list[TensorProto] = field(default_factory=list)
    sparse: list[SparseTensorProto] = field(default_factory=list)
    types: list[ValueInfoProto] = field(default_factory=list)
    notes: list[TensorAnnotation] = field(default_factory=list)

    def records(self) -> tuple[NodeRecord, ...]:
        """Record the nodes."""
        return tuple(record(node) for node in self.nodes)

    def fusion(self, step: str, node: Node) -> Fusion:
        """Record that these stand in the place of a node."""
        outputs = tuple(value.name for value in node.outputs)
        return Fusion(step, step, node.scope.path, records([node]), self.records(), outputs=outputs)

    def extend(self, other: Parts) -> None:
        """Add what stands after this."""
        self.nodes += other.nodes
        self.weights += other.weights
        self.sparse += other.sparse
        self.types += other.types
        self.notes += other.notes


def record(node: NodeProto) -> NodeRecord:
    """Record a node that is not in an editable graph."""
    op = f"{node.domain}.{node.op_type}" if node.domain not in ("", "ai.onnx") else node.op_type
    return NodeRecord(node.name, op, tuple(node.output))


def instantiate(body: Body, given: Mapping[str, str], wanted: Sequence[str], names: Names, prefix: str = "") -> Parts:
    """Return a copy of a body that reads and gives values of the scope around it.

    `given`: what the body's inputs are called there ("" for one that is absent), and perhaps weights that are there
    already.  `wanted`: what its outputs are to be called ("" for one that nobody reads).  Whatever else the body names
    gets a name of its own, which starts with `prefix`.
    """
    renames = dict(given)
    computed = {name for node in body.node for name in node.output}
    passed: list[tuple[str, str]] = []
    for inner, outer in zip(outputs(body), wanted, strict=False):
        if outer and inner in computed and inner not in renames:
            renames[inner] = outer
        elif outer:
            passed.append((inner, outer))
    renames.update((name, names.value(prefix + name)) for name in own(body) if name not in renames)
    parts = _parts(body, given)
    _rename(parts, renames, names, prefix)
    for inner, outer in passed:
        name = names.node(f"{outer}/Identity")
        parts.nodes.append(NodeProto(op_type="Identity", name=name, input=[renames.get(inner, inner)], output=[outer]))
    return parts


def copies(body: Body) -> list[str]:
    """Return the outputs of a body that `instantiate` must give by an Identity."""
    computed = [name for node in body.node for name in node.output]
    given = outputs(body)
    return [name for index, name in enumerate(given) if name not in computed or name in given[:index]]


def _parts(body: Body, given: Mapping[str, str]) -> Parts:
    """Return copies of what a body holds, but for weights that are given."""
    nodes = [_copy(node) for node in body.node]
    if isinstance(body, FunctionProto):
        return Parts(nodes)
    return Parts(
        nodes,
        [_copy(tensor) for tensor in body.initializer if tensor.name not in given],
        [_copy(tensor) for tensor in body.sparse_initializer if tensor.values.name not in given],
        [_copy(info) for info in (*body.value_info, *body.output)],
        [_copy(note) for note in body.quantization_annotation],
    )


def _copy(proto: _Message) -> _Message:
    made = type(proto)()
    made.CopyFrom(proto)
    return made


def _rename(parts: Parts, renames: Mapping[str, str], names: Names, prefix: str) -> None:
    """Rename in place what a body, or a graph inside one, reads, gives and says something about."""
    get = partial(_renamed, renames)
    for tensor in parts.weights:
        tensor.name = get(tensor.name)
    for sparse in parts.sparse:
        sparse.values.name = get(sparse.values.name)
    for info in parts.types:
        info.name = get(info.name)
    for note in parts.notes:
        note.tensor_name = get(note.tensor_name)
        for entry in note.quant_parameter_tensor_names:
            entry.value = get(entry.value)
    for node in parts.nodes:
        _rename_node(node, renames, names, prefix)


def _rename_node(node: NodeProto, renames: Mapping[str, str], names: Names, prefix: str) -> None:
    node.name = names.node(prefix + node.name if node.name else "")
    node.input[:] = [_renamed(renames, name) for name in node.input]
    node.output[:] = [_renamed(renames, name) for name in node.output]
    for _, graph in subgraphs(node):
        inner = {name: names.value(prefix + name) for name in own(graph)}
        parts = Parts(
            list(graph.node),
            list(graph.initializer),
            list(graph.sparse_initializer),
            [*graph.value_info, *graph.input, *graph.output],
            list(graph.quantization_annotation),
        )
        _rename(parts, {**renames, **inner}, names, prefix)


def _renamed(renames: Mapping[str, str], name: str) -> str:
    return renames.get(name, name)


def place(body: Body, placed: Mapping[int, Parts]) -> None:
    """Put parts in the place of nodes of a body, given by their numbers."""
    nodes: list[NodeProto] = []
    for index, node in enumerate(body.node):
        parts = placed.get(index)
        if parts is None:
            nodes.append(node)
            continue
        nodes += [*_constants(parts), *parts.nodes] if isinstance(body, FunctionProto) else parts.nodes
    del body.node[:]
    body.node.extend(nodes)
    if isinstance(body, GraphProto):
        _place_values(body, placed)


def _place_values(graph: GraphProto, placed: Mapping[int, Parts]) -> None:
    known = {info.name for info in (*graph.value_info, *graph.output, *graph.input)}
    for parts in placed.values():
        graph.initializer.extend(parts.weights)
        graph.sparse_initializer.extend(parts.sparse)
        graph.quantization_annotation.extend(parts.notes)
        given = {name for node in parts.nodes for name in node.output}
        for info in parts.types:
            if info.name in given - known:
                graph.value_info.append(info)
                known.add(info.name)


def _constants(parts: Parts) -> list[NodeProto]:
    """Return weights as nodes, for a function body, which can hold no initializers."""
    dense = [(t.name, AttributeProto(name="value", type=AttributeProto.TENSOR, t=t)) for t in parts.weights]
    sparse = [
        (s.values.name, AttributeProto(name="sparse_value", type=AttributeProto.SPARSE_TENSOR, sparse_tensor=s))
        for s in parts.sparse
    ]
    return [NodeProto(op_type="Constant", output=[name], attribute=[value]) for name, value in (*dense, *sparse)]
