"""What random models are built with: the graph so far, the shapes of its values, weights in every spelling."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
from onnx import FunctionProto, NodeProto, TensorProto, helper, numpy_helper

from ..helpers import Array

Shape: TypeAlias = tuple[int, ...]


class Pool:
    """The nodes and weights of one graph while it is built, and the shapes of all values that can be read there."""

    def __init__(self, outer: Pool | None = None) -> None:
        self.nodes: list[NodeProto] = []
        self.weights: list[TensorProto] = []
        self.shapes: dict[str, Shape] = dict(outer.shapes) if outer else {}
        self.constants: dict[str, Shape] = dict(outer.constants) if outer else {}


class Maker:
    """Makes one random model."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.data = np.random.default_rng(seed)
        self.opset = self.rng.choice((9, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23))
        self.dtype = np.dtype(self.rng.choice(("float32", "float32", "float32", "float16", "float64")))
        self.pool = Pool()
        self.overridable: list[str] = []
        self.functions: list[FunctionProto] = []
        self.count = 0
        self.depth = 0
        self.inside_function = False
        self.dynamic = False

    def chance(self, probability: float) -> bool:
        return self.rng.random() < probability

    def name(self, stem: str = "v") -> str:
        self.count += 1
        return f"{stem}{self.count}"

    @property
    def elem_type(self) -> int:
        return int(helper.np_dtype_to_tensor_dtype(self.dtype))

    def add(self, op: str, inputs: Sequence[str], shape: Shape, **attributes: Any) -> str:
        """Add a node with one output of the given shape."""
        output = self.name()
        label = self.name("n") if self.chance(0.5) else ""
        self.pool.nodes.append(helper.make_node(op, list(inputs), [output], label, **attributes))
        self.pool.shapes[output] = shape
        return output

    def weight(self, array: Array) -> str:
        """Add a constant, in one of the ways that exporters write them."""
        if array.dtype.kind == "f":
            array = array.astype(self.dtype)
        name = self.name("w")
        tensor = numpy_helper.from_array(array, name)
        way = 0.7 if self.inside_function else self.rng.random()
        if way < 0.6:
            self.pool.weights.append(tensor)
        elif way < 0.85 or array.dtype.kind != "f":
            self.pool.nodes.append(helper.make_node("Constant", [], [name], value=tensor))
        elif way < 0.95 or self.depth:
            tensor.name = self.name("w")
            self.pool.weights.append(tensor)
            self.pool.nodes.append(helper.make_node("Identity", [tensor.name], [name]))
        else:
            self.pool.weights.append(tensor)
            self.overridable.append(name)
        if array.dtype.kind == "f":
            self.pool.constants[name] = array.shape
        return name

    def values(self, *shape: int, low: float | None = None) -> str:
        """Return a weight of this shape, now and then one that is there already; `low`: its least element."""
        known = [name for name, dims in self.pool.constants.items() if dims == shape]
        if low is None and known and self.chance(0.4):
            return self.rng.choice(known)
        array = self.data.standard_normal(shape)
        return self.weight(array if low is None else np.abs(array) + low)

    def number(self, value: float, rank: int = 0) -> str:
        """Return a constant of one element, as often of rank 1 or more as exporters have it, or more."""
        dims = self.rng.choice(([], [], [], [1], [1] * min(rank, 2), [1] * (rank + 1 if self.chance(0.1) else rank)))
        return self.weight(np.full(dims, value))

    def pick(self, rank: int | None = None) -> str:
        """Return a value to go on from: most often the newest."""
        fit = [n for n, dims in self.pool.shapes.items() if rank is None or len(dims) == rank]
        if not fit:
            return self.pick() if rank is None else self.reshaped(self.pick(), rank)
        return fit[-1] if self.chance(0.6) else self.rng.choice(fit)

    def reshaped(self, x: str, rank: int) -> str:
        """Bring a value to a rank, keeping all its elements."""
        shape = self.pool.shapes[x]
        size = int(np.prod(shape))
        dims = [1] * rank
        for index in range(rank):
            fit = [d for d in (1, 2, 3, 4, 5) if size and size % d == 0]
            dims[index] = size if index == rank - 1 else self.rng.choice(fit or [1])
            size = size // dims[index] if dims[index] else size
        target = self.weight(np.asarray(dims, np.int64))
        return self.add("Reshape", [x, target], tuple(dims))

    def axes(self, op: str, x: str, axes: Sequence[int], keepdims: int = 1) -> str:
        """Add a reduction with its axes as the opset has them, counted from either end."""
        shape = self.pool.shapes[x]
        rank = len(shape)
        counted = [axis % rank if self.chance(0.5) and self.known_rank() else axis for axis in axes]
        gone = {axis % rank for axis in axes}
        after = tuple(1 if i in gone else d for i, d in enumerate(shape) if keepdims or i not in gone)
        extra = {} if keepdims and self.chance(0.5) else {"keepdims": keepdims}
        if self.opset >= (13 if op == "ReduceSum" else 18):
            return self.add(op, [x, self.weight(np.asarray(counted, np.int64))], after, **extra)
        return self.add(op, [x], after, axes=counted, **extra)

    def known_rank(self) -> bool:
        return True

    def both(self, op: str, a: str, b: str) -> str:
        """Add a commutative node with its operands in either order."""
        pair = [a, b] if self.chance(0.5) else [b, a]
        shape = np.broadcast_shapes(*(self.shape(name) for name in pair))
        return self.add(op, pair, shape)

    def shape(self, name: str) -> Shape:
        if name in self.pool.shapes:
            return self.pool.shapes[name]
        return self.pool.constants.get(name) or self.dims_of(name)

    def dims_of(self, name: str) -> Shape:
        for tensor in self.pool.weights:
            if tensor.name == name:
                return tuple(tensor.dims)
        for node in self.pool.nodes:
            if name in node.output and node.op_type == "Constant":
                return tuple(node.attribute[0].t.dims)
        return ()

    def addend(self, shape: Shape) -> str:
        """Return a value that can be added to one of this shape: of any rank, with dims of 1, now and then larger."""
        dims = [d if self.chance(0.7) else 1 for d in shape[self.rng.randrange(len(shape) + 1) :]]
        if self.chance(0.08):
            dims = [self.rng.choice((1, 2)), *([1] * (len(shape) - len(dims))), *dims]
        return self.values(*dims)

    def piece(self) -> None:
        """Add some nodes that belong together."""
        raise NotImplementedError
