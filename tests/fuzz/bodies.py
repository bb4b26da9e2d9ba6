"""Pieces inside If and Loop bodies and local functions."""

from __future__ import annotations

import numpy as np
from onnx import TensorProto, helper

from .maker import Pool, Shape
from .shapes import Shapes


class Bodies(Shapes):
    """Adds pieces that hold pieces."""

    def told(self, shape: Shape) -> list[int | None]:
        """Return the dims that a body may state: where the model has dynamic dims, those here may follow from them."""
        return [None] * len(shape) if self.dynamic else list(shape)

    def branch(self) -> None:
        """Add an If whose branches compute something of one shape from outer values."""
        if self.depth == 2 or self.inside_function:
            return
        outer, name = self.pool, self.name()
        x = self.pick()
        graphs = []
        self.depth += 1
        for kind in ("then", "else"):
            self.pool = Pool(outer)
            start = self.add("Tanh", [x], outer.shapes[x])
            for _ in range(self.rng.choice((1, 2, 3))):
                self.piece()
            fit = [n for n in self.pool.shapes if n not in outer.shapes and self.pool.shapes[n] == outer.shapes[x]]
            given = self.rng.choice(fit) if fit else start
            result = helper.make_tensor_value_info(given, self.elem_type, self.told(outer.shapes[x]))
            graphs.append(helper.make_graph(self.pool.nodes, kind, [], [result], self.pool.weights))
        self.depth -= 1
        self.pool = outer
        outer.nodes.append(helper.make_node("If", ["flag"], [name], then_branch=graphs[0], else_branch=graphs[1]))
        outer.shapes[name] = outer.shapes[x]

    def loop(self) -> None:
        """Add a Loop that carries one value through a body which may read outer values."""
        if self.depth == 2 or self.inside_function:
            return
        outer, name, carried = self.pool, self.name(), self.name()
        x = self.pick()
        shape = outer.shapes[x]
        count, again = self.weight(np.asarray(2, np.int64)), self.weight(np.asarray(True))
        self.depth += 1
        self.pool = Pool(outer)
        self.pool.shapes[carried] = shape
        for _ in range(self.rng.choice((1, 2, 3))):
            self.piece()
        fit = [n for n in self.pool.shapes if n not in outer.shapes and self.pool.shapes[n] == shape]
        given = self.add("Tanh", [self.rng.choice(fit)], shape)
        ends = self.name("end")
        self.pool.nodes.append(helper.make_node("Identity", ["go"], [ends]))
        inputs = [
            helper.make_tensor_value_info("step", TensorProto.INT64, []),
            helper.make_tensor_value_info("go", TensorProto.BOOL, []),
            helper.make_tensor_value_info(carried, self.elem_type, self.told(shape)),
        ]
        outputs = [
            helper.make_tensor_value_info(ends, TensorProto.BOOL, []),
            helper.make_tensor_value_info(given, self.elem_type, self.told(shape)),
        ]
        body = helper.make_graph(self.pool.nodes, "body", inputs, outputs, self.pool.weights)
        self.depth -= 1
        self.pool = outer
        outer.nodes.append(helper.make_node("Loop", [count, again, x], [name], body=body))
        outer.shapes[name] = shape

    def call(self) -> None:
        """Add a local function, and one call of it or two."""
        if self.depth or self.inside_function or self.opset < 13:
            return
        outer, stem = self.pool, self.name("F")
        x = self.pick()
        shape = outer.shapes[x]
        self.pool, self.inside_function = Pool(), True
        self.pool.shapes["p"] = shape
        given = "p"
        for _ in range(self.rng.choice((1, 2, 3))):
            self.piece()
        fit = [n for n in self.pool.shapes if n != "p"]
        given = self.rng.choice(fit) if fit else self.add("Neg", ["p"], shape)
        imports = [helper.make_opsetid("", self.opset)]
        self.functions.append(helper.make_function("local", stem, ["p"], [given], self.pool.nodes, imports))
        result = self.pool.shapes[given]
        self.pool, self.inside_function = outer, False
        for _ in range(self.rng.choice((1, 2))):
            name = self.name()
            fit = [n for n, dims in outer.shapes.items() if dims == shape]
            outer.nodes.append(helper.make_node(stem, [self.rng.choice(fit)], [name], domain="local"))
            outer.shapes[name] = result
