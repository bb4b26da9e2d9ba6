"""A model as something to trace values through: who uses a value, what is constant, where nested graphs lead."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from onnx import AttributeProto, FunctionProto, GraphProto, ModelProto, NodeProto, TensorProto, numpy_helper

from onnxfuse.model.file import ModelFile

# Larger constants are never read while tracing.
_SMALL = 1 << 16


class Body:
    """The main graph or a function body, with all graphs nested in it flattened: their names do not clash."""

    def __init__(self, graph: GraphProto | FunctionProto) -> None:
        self.uses: dict[str, list[tuple[NodeProto, int]]] = defaultdict(list)
        self.producers: dict[str, NodeProto] = {}
        self.tensors: dict[str, TensorProto] = {}
        # An input of a nested graph or a result of one: the value it becomes on the other side.
        self.passages: dict[str, list[str]] = defaultdict(list)
        self.ops: set[str] = set()
        self._add(graph)

    def _add(self, graph: GraphProto | FunctionProto) -> None:
        if isinstance(graph, GraphProto):
            self.tensors.update((tensor.name, tensor) for tensor in graph.initializer)
        for node in graph.node:
            self._add_node(node)

    def _add_node(self, node: NodeProto) -> None:
        self.ops.add(node.op_type)
        for index, name in enumerate(node.input):
            if name:
                self.uses[name].append((node, index))
        self.producers.update((name, node) for name in node.output if name)
        for attribute in node.attribute:
            if node.op_type == "Constant":
                self._add_constant(node.output[0], attribute)
            for nested in [attribute.g] if attribute.HasField("g") else attribute.graphs:
                self._add(nested)
                self._connect(node, nested)

    def _add_constant(self, name: str, attribute: AttributeProto) -> None:
        kinds = {"value_int": np.int64, "value_ints": np.int64, "value_float": np.float32, "value_floats": np.float32}
        if attribute.name == "value":
            self.tensors[name] = attribute.t
        elif attribute.name in kinds:
            plain = {"value_int": attribute.i, "value_float": attribute.f}.get(attribute.name)
            values = list(attribute.ints or attribute.floats) if plain is None else plain
            self.tensors[name] = numpy_helper.from_array(np.array(values, kinds[attribute.name]))

    def _connect(self, node: NodeProto, nested: GraphProto) -> None:
        skipped = 1 if node.op_type == "Loop" else 0
        # A Loop body sees (iteration, condition, carried values ...), the node takes (trip count, condition, ...).
        for outer, inner in zip(node.input, nested.input, strict=False):
            self.passages[outer].append(inner.name)
        for result, outer in zip(nested.output[skipped:], node.output, strict=False):
            self.passages[result.name].append(outer)


@dataclass(frozen=True)
class Place:
    """A body, and for a function body the calls that led into it, outermost first, each with the caller's body."""

    body: Body
    calls: tuple[tuple[Body, NodeProto], ...] = ()


class Bodies:
    """All bodies of a model."""

    def __init__(self, model: ModelFile) -> None:
        self._model = model
        self.main = Body(model.proto.graph)
        self._functions = {(item.domain, item.name): item for item in model.proto.functions}
        self._built: dict[tuple[str, str], Body] = {}

    def function(self, node: NodeProto) -> tuple[FunctionProto, Body] | None:
        """Return the local function a node calls."""
        key = (node.domain, node.op_type)
        function = self._functions.get(key)
        if function is None:
            return None
        if key not in self._built:
            self._built[key] = Body(function)
        return function, self._built[key]

    def constant(self, place: Place, name: str) -> np.ndarray | None:
        """Return the values of a small constant; None for anything else."""
        body, name = self._outside(place, name)
        tensor = body.tensors.get(name)
        if tensor is None or np.prod(tensor.dims, dtype=np.int64) > _SMALL:
            return None
        return self._model.read(tensor)

    def has_op(self, ops: Iterable[str]) -> bool:
        """Tell whether any body holds one of these op types."""
        bodies = [self.main, *(Body(function) for function in self._functions.values())]
        return any(not body.ops.isdisjoint(ops) for body in bodies)

    def dims(self, place: Place, name: str) -> tuple[int | str | None, ...] | None:
        """Return the shape of a value as far as it can be told: sizes, symbols, None."""
        body, name = self._outside(place, name)
        seen: set[str] = set()
        while name not in seen:
            seen.add(name)
            if name in body.tensors:
                return tuple(body.tensors[name].dims)
            if body is self.main and name in self._declared:
                return self._declared[name]
            producer = body.producers.get(name)
            if producer is None or producer.op_type not in ("Identity", "Cast", "DequantizeLinear", "CastLike"):
                return None
            name = producer.input[0]
        return None

    def _outside(self, place: Place, name: str) -> tuple[Body, str]:
        """Return what an argument of a function is at its caller; any other value as it is."""
        body = place.body
        for outer, node in reversed(place.calls):
            called = self.function(node)
            formals = list(called[0].input) if called else []
            if name not in formals or formals.index(name) >= len(node.input):
                break
            body, name = outer, node.input[formals.index(name)]
        return body, name

    @cached_property
    def _declared(self) -> dict[str, tuple[int | str | None, ...]]:
        return dict(_declared_dims(self._model.proto))


def _declared_dims(proto: ModelProto) -> Iterator[tuple[str, tuple[int | str | None, ...]]]:
    for value in (*proto.graph.input, *proto.graph.value_info, *proto.graph.output):
        tensor = value.type.tensor_type
        if tensor.HasField("shape"):
            yield (
                value.name,
                tuple(
                    dim.dim_value if dim.HasField("dim_value") else dim.dim_param or None for dim in tensor.shape.dim
                ),
            )
