"""Names for what is copied out of a body, so that no scope gives a name that another one means something else by."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TypeAlias

from onnx import FunctionProto, GraphProto, ModelProto

from onnxfuse.model.graph import subgraphs

Body: TypeAlias = GraphProto | FunctionProto


class Names:
    """Gives out names that no value, or no node, of any scope of a model has."""

    def __init__(self, proto: ModelProto) -> None:
        self._values: Counter[str] = Counter()
        self._nodes: Counter[str] = Counter()
        for body in (proto.graph, *proto.functions):
            self._values.update(defined(body))
            self._nodes.update(_node_names(body))

    def value(self, wish: str) -> str:
        """Return `wish` as the name of a value, with a number behind it if that is taken."""
        return _fresh(wish, self._values)

    def node(self, wish: str) -> str:
        """Return `wish` as the name of a node, with a number behind it if that is taken; a nameless one stays so."""
        return _fresh(wish, self._nodes) if wish else ""

    def release(self, body: Body) -> None:
        """Give back the names of a body that goes; one that other scopes have too stays taken."""
        self._values.subtract(defined(body))
        self._nodes.subtract(_node_names(body))


def _fresh(wish: str, taken: Counter[str]) -> str:
    name, number = wish, 0
    while taken[name] > 0:
        number += 1
        name = f"{wish}_{number}"
    taken[name] += 1
    return name


def own(body: Body) -> list[str]:
    """Return the names that a body itself gives: to what it is fed, to its weights and to what its nodes compute."""
    names = [name for node in body.node for name in node.output if name]
    if isinstance(body, FunctionProto):
        return [*body.input, *names]
    sparse = (tensor.values.name for tensor in body.sparse_initializer)
    listed = dict.fromkeys([*(value.name for value in body.input), *(tensor.name for tensor in body.initializer)])
    return [*listed, *sparse, *names]


def defined(body: Body) -> Iterator[str]:
    """Yield the names that a body and the graphs in it give to values, one as often as scopes give it."""
    yield from own(body)
    for graph in _inner(body):
        yield from defined(graph)


def _node_names(body: Body) -> Iterator[str]:
    yield from (node.name for node in body.node if node.name)
    for graph in _inner(body):
        yield from _node_names(graph)


def _inner(body: Body) -> Iterator[GraphProto]:
    for node in body.node:
        for _, graph in subgraphs(node):
            yield graph


def outputs(body: Body) -> list[str]:
    """Return the names of what a body gives."""
    return list(body.output) if isinstance(body, FunctionProto) else [value.name for value in body.output]
