"""Local functions of a model: by what they are called, and which of them are."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

from onnx import FunctionProto, GraphProto, ModelProto, NodeProto

from onnxfuse.model import schema
from onnxfuse.model.graph import subgraphs

# The domain, name and overload that a call must have.
Key: TypeAlias = tuple[str, str, str]


def key_of(function: FunctionProto) -> Key:
    """Return what a function is called by."""
    return schema.domain_of(function.domain), function.name, function.overload


def called_by(node: NodeProto) -> Key:
    """Return what a node calls if it is a call."""
    return schema.domain_of(node.domain), node.op_type, node.overload


def all_nodes(body: GraphProto | FunctionProto) -> Iterator[NodeProto]:
    """Yield the nodes of a body and of the graphs in it."""
    for node in body.node:
        yield node
        for _, graph in subgraphs(node):
            yield from all_nodes(graph)


def graphs_of(proto: ModelProto) -> Iterator[GraphProto]:
    """Yield the graphs of a model that are run as such: its own, and those it is trained by."""
    yield proto.graph
    for info in proto.training_info:
        yield from (info.initialization, info.algorithm)


def called(proto: ModelProto) -> set[Key]:
    """Return the functions that the graphs of a model call, and those that these call."""
    functions = {key_of(function): function for function in proto.functions}
    found: set[Key] = set()
    waiting: list[GraphProto | FunctionProto] = list(graphs_of(proto))
    while waiting:
        for node in all_nodes(waiting.pop()):
            key = called_by(node)
            if key in functions and key not in found:
                found.add(key)
                waiting.append(functions[key])
    return found
