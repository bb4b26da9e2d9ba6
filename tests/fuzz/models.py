"""Random models of the pieces that rules look for, put together in ways that rules must not be fooled by."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from onnx import GraphProto, ModelProto, NodeProto, TensorProto, ValueInfoProto, helper

from ..helpers import Array
from .bodies import Bodies
from .maker import Shape


class RandomModel(Bodies):
    """Makes one random model."""

    def piece(self) -> None:
        kinds: list[Callable[[], None]] = [
            self.unary, self.cast, self.dropout, self.binary, self.matmul, self.matmul, self.convolution,
            self.convolution, self.gelu, self.norm, self.norm, self.twin, self.branch, self.loop, self.call,
            self.computed, self.computed,
        ]  # fmt: skip
        self.rng.choice(kinds)()

    def model(self) -> tuple[ModelProto, dict[str, Array]]:
        """Return a model and inputs for it."""
        feeds: dict[str, Array] = {"flag": np.asarray(self.chance(0.5))}
        inputs = [helper.make_tensor_value_info("flag", TensorProto.BOOL, [])]
        for index in range(self.rng.choice((1, 2))):
            shape = tuple(self.rng.choice((1, 2, 3, 4, 4)) for _ in range(self.rng.choice((2, 3, 4))))
            if self.chance(0.05):
                shape = (0, *shape[1:])
            name = f"x{index}"
            self.pool.shapes[name] = shape
            feeds[name] = self.data.standard_normal(shape).astype(self.dtype)
            dims = [self.rng.choice((d, d, d, f"d{d}", None)) for d in shape] if self.chance(0.5) else list(shape)
            self.dynamic = self.dynamic or dims != list(shape)
            inputs.append(helper.make_tensor_value_info(name, self.elem_type, None if self.chance(0.05) else dims))
        for _ in range(self.rng.choice((1, 2, 3, 5, 8))):
            self.piece()
        graph = helper.make_graph(self.pool.nodes, "g", inputs, self.outputs(), self.pool.weights)
        arrays = {tensor.name: tensor for tensor in self.pool.weights}
        for name in self.overridable:
            graph.input.append(helper.make_tensor_value_info(name, self.elem_type, arrays[name].dims))
        imports = [helper.make_opsetid("", self.opset)]
        if self.functions:
            imports.append(helper.make_opsetid("local", 1))
        made = helper.make_model(graph, opset_imports=imports, functions=self.functions)
        least = helper.find_min_ir_version_for(made.opset_import, ignore_unknown=True)
        made.ir_version = 3 if self.opset <= 9 and self.chance(0.3) else max(8, least)
        if made.ir_version == 3:
            _list_weights(graph=made.graph)
        return made, feeds

    def outputs(self) -> list[ValueInfoProto]:
        """Return what nobody reads, and some inner values."""
        read = set(_read(self.pool.nodes))
        given = [name for node in self.pool.nodes for name in node.output if name in self.pool.shapes]
        ends = [name for name in given if name not in read or self.chance(0.06)]
        return [helper.make_tensor_value_info(n, self.elem_type, self.declared(self.pool.shapes[n])) for n in ends]

    def declared(self, shape: Shape) -> list[int | str | None]:
        """Return what a model may say of a shape."""
        return [self.rng.choice((d, d, None)) for d in shape] if self.chance(0.5) else list(shape)


def _list_weights(graph: GraphProto) -> None:
    listed = {value.name for value in graph.input}
    for tensor in graph.initializer:
        if tensor.name not in listed:
            graph.input.append(helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims))


def _read(nodes: Sequence[NodeProto]) -> list[str]:
    names = [name for node in nodes for name in node.input]
    for node in nodes:
        for attribute in node.attribute:
            names += _read(attribute.g.node) if attribute.HasField("g") else []
    return names


def random_model(seed: int) -> tuple[ModelProto, dict[str, Array]]:
    """Return the model of a seed and inputs for it."""
    return RandomModel(seed).model()
