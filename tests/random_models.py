"""Random models of the pieces that rules look for, put together in ways that rules must not be fooled by."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np
from onnx import GraphProto, ModelProto, NodeProto, TensorProto, ValueInfoProto, helper, numpy_helper

from .helpers import Array

Shape: TypeAlias = tuple[int, ...]

# The value of a dim is its shape in the run; what the model declares of it may be less.
_UNARY = ("Relu", "Neg", "Abs", "Tanh", "Sigmoid", "Identity", "Softplus")


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
        self.count = 0
        self.depth = 0

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
        way = self.rng.random()
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

    # The pieces

    def unary(self) -> None:
        x = self.pick()
        self.add(self.rng.choice(_UNARY), [x], self.pool.shapes[x])

    def cast(self) -> None:
        x = self.pick()
        types = [self.elem_type, self.elem_type, TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.FLOAT16]
        inner = self.add("Cast", [x], self.pool.shapes[x], to=self.rng.choice(types))
        del self.pool.shapes[inner]
        self.add("Cast", [inner], self.pool.shapes[x], to=self.elem_type)

    def dropout(self) -> None:
        x = self.pick()
        if self.opset >= 12 and self.chance(0.5):
            self.add("Dropout", [x, self.weight(np.asarray(0.3))], self.pool.shapes[x])
        else:
            self.add("Dropout", [x], self.pool.shapes[x])

    def binary(self) -> None:
        x = self.pick()
        shape = self.pool.shapes[x]
        fit = [n for n, dims in self.pool.shapes.items() if dims == shape]
        other = self.rng.choice(fit) if self.chance(0.4) else self.addend(shape)
        pair = [x, other] if self.chance(0.6) else [other, x]
        result = np.broadcast_shapes(shape, self.shape(other))
        self.add(self.rng.choice(("Add", "Add", "Sub", "Mul")), pair, result)

    def matmul(self) -> None:
        x = self.pick(self.rng.choice((2, 2, 2, 1, 3, None)))
        shape = self.pool.shapes[x]
        if not shape:
            return
        width = self.rng.choice((1, 3, 4, shape[-1]))
        w = self.values(shape[-1], width) if self.chance(0.9) else self.values(shape[-1])
        if len(shape) == 2 and self.chance(0.1):
            w = self.values(2, shape[-1], width)
        result = np.matmul(np.zeros(shape), np.zeros(self.shape(w))).shape
        y = self.add("MatMul", [x, w], result)
        for _ in range(self.rng.choice((0, 1, 1, 2, 3))):
            fit = [n for n, dims in self.pool.shapes.items() if dims == self.pool.shapes[y] and n != y]
            other = self.rng.choice(fit) if fit and self.chance(0.3) else self.addend(self.pool.shapes[y])
            y = self.both("Add", y, other)

    def convolution(self) -> None:
        x = self.pick(self.rng.choice((4, 4, 3)))
        n, c, *size = self.pool.shapes[x]
        kernel = [self.rng.choice((1, min(2, s))) if s else 1 for s in size]
        group = self.rng.choice([g for g in (1, 1, 2, c) if g and c % g == 0] or [1])
        if not c or 0 in size:
            return
        transposed = self.chance(0.3)
        out = group * self.rng.choice((1, 2))
        pads = [self.rng.choice((0, 1)) if k > 1 else 0 for k in kernel] * 2
        strides = [self.rng.choice((1, 1, 2)) for _ in kernel]
        w = self.values(c, out // group, *kernel) if transposed else self.values(out, c // group, *kernel)
        inputs = [x, w, self.values(out)] if self.chance(0.5) else [x, w]
        spread = [sum(pair) for pair in zip(pads[: len(size)], pads[len(size) :], strict=True)]
        if transposed:
            after = [(s - 1) * t + k - p for s, t, k, p in zip(size, strides, kernel, spread, strict=True)]
        else:
            after = [(s + p - k) // t + 1 for s, t, k, p in zip(size, strides, kernel, spread, strict=True)]
        if min(after) < 1:
            return
        extra = {"strides": strides, "pads": pads, "group": group}
        extra = {name: value for name, value in extra.items() if value != 1 and self.chance(1)}
        y = self.add("ConvTranspose" if transposed else "Conv", inputs, (n, out, *after), **extra)
        for _ in range(self.rng.choice((0, 1, 1, 1, 2))):
            y = self.between(y)
            self.batchnorm(y)

    def between(self, y: str) -> str:
        """Put something between two nodes now and then, which a rule must see through or stop at."""
        op = self.rng.choice(("", "", "", "", "Identity", "Relu"))
        return self.add(op, [y], self.pool.shapes[y]) if op else y

    def batchnorm(self, x: str) -> None:
        channels = self.pool.shapes[x][1]
        parameters = [
            self.values(channels),
            self.values(channels),
            self.values(channels),
            self.values(channels, low=0.3),
        ]
        extra = {} if self.chance(0.5) else {"epsilon": self.rng.choice((1e-3, 0.1))}
        self.add("BatchNormalization", [x, *parameters], self.pool.shapes[x], **extra)

    def gelu(self) -> None:
        x = self.pick()
        rank = len(self.pool.shapes[x])
        root = self.rng.choice((2**0.5, 2**0.5, 2**0.5, 1.41421, 1.4))
        if self.chance(0.5):
            u = self.add("Div", [x, self.number(root, rank)], self.pool.shapes[x])
        else:
            u = self.both("Mul", x, self.number(1 / root, rank))
        e = self.add("Erf" if self.chance(0.9) else "Tanh", [u], self.pool.shapes[u])
        e1 = self.both("Add", e, self.number(1.0, rank))
        half = self.number(0.5 if self.chance(0.9) else 0.25, rank)
        x2 = x if self.chance(0.95) else self.pick()
        if self.pool.shapes[x2] != self.pool.shapes[x]:
            x2 = x
        first, second, third = self.rng.sample([x2, e1, half], 3)
        self.both("Mul", self.both("Mul", first, second), third)

    def norm(self) -> None:
        x = self.pick(self.rng.choice((2, 3, 3, 4)))
        shape = self.pool.shapes[x]
        axes = [-1] if self.chance(0.7) else sorted(self.rng.sample(range(-len(shape), 0), self.rng.choice((1, 2))))
        if any(shape[axis] == 0 for axis in axes):
            return
        rms = self.chance(0.3)
        keep = 1 if self.chance(0.92) else 0
        d = x
        if not rms:
            mean = self.axes("ReduceMean", x, axes, keep)
            if not self.fits(mean, shape):
                return
            d = self.add("Sub", [x, mean] if self.chance(0.95) else [mean, x], shape)
        squared = d if self.chance(0.5) or rms else d if not self.chance(0.3) else self.add("Sub", [x, mean], shape)
        sq = self.both("Mul", squared, squared) if self.chance(0.5) else self.add("Pow", [d, self.number(2.0)], shape)
        var = self.axes("ReduceMean", sq, axes if self.chance(0.95) else [-1], keep)
        if not self.fits(var, shape):
            return
        eps = self.both("Add", var, self.number(self.rng.choice((1e-2, 1e-3)), 1))
        y = self.divided(d, eps)
        if self.chance(0.7):
            y = self.both("Mul", y, self.addend(self.pool.shapes[y]) if self.chance(0.3) else self.scale(axes, shape))
        if self.chance(0.7):
            self.both("Add", y, self.addend(self.pool.shapes[y]) if self.chance(0.3) else self.scale(axes, shape))

    def fits(self, name: str, shape: Shape) -> bool:
        try:
            return np.broadcast_shapes(self.pool.shapes[name], shape) == shape
        except ValueError:
            return False

    def scale(self, axes: Sequence[int], shape: Shape) -> str:
        return self.values(*(shape[axis] for axis in sorted(axes))) if self.tail(axes) else self.values(shape[-1])

    def tail(self, axes: Sequence[int]) -> bool:
        return list(axes) == list(range(-len(axes), 0))

    def divided(self, d: str, eps: str) -> str:
        shape = np.broadcast_shapes(self.pool.shapes[d], self.pool.shapes[eps])
        way = self.rng.randrange(4)
        if way == 0:
            root = self.add("Pow", [eps, self.number(0.5)], self.pool.shapes[eps])
        else:
            root = self.add("Sqrt", [eps], self.pool.shapes[eps])
        if way < 2:
            return self.add("Div", [d, root], shape)
        if way == 2:
            return self.both("Mul", d, self.add("Reciprocal", [root], self.pool.shapes[root]))
        return self.both("Mul", d, self.add("Div", [self.number(1.0), root], self.pool.shapes[root]))

    def twin(self) -> None:
        """Compute something a second time."""
        fit = [n for n in self.pool.nodes if n.op_type not in ("Constant", "If") and n.output[0] in self.pool.shapes]
        if fit:
            copy = NodeProto()
            copy.CopyFrom(self.rng.choice(fit))
            shape = self.pool.shapes[copy.output[0]]
            copy.name, copy.output[0] = "", self.name()
            self.pool.nodes.append(copy)
            self.pool.shapes[copy.output[0]] = shape

    def branch(self) -> None:
        """Add an If whose branches compute something of one shape from outer values."""
        if self.depth == 2:
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
            result = helper.make_tensor_value_info(given, self.elem_type, outer.shapes[x])
            graphs.append(helper.make_graph(self.pool.nodes, kind, [], [result], self.pool.weights))
        self.depth -= 1
        self.pool = outer
        outer.nodes.append(helper.make_node("If", ["flag"], [name], then_branch=graphs[0], else_branch=graphs[1]))
        outer.shapes[name] = outer.shapes[x]

    def piece(self) -> None:
        kinds: list[Callable[[], None]] = [
            self.unary, self.cast, self.dropout, self.binary, self.matmul, self.matmul, self.convolution,
            self.convolution, self.gelu, self.norm, self.norm, self.twin, self.branch,
        ]  # fmt: skip
        self.rng.choice(kinds)()

    # The whole

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
            inputs.append(helper.make_tensor_value_info(name, self.elem_type, None if self.chance(0.05) else dims))
        for _ in range(self.rng.choice((1, 2, 3, 5, 8))):
            self.piece()
        graph = helper.make_graph(self.pool.nodes, "g", inputs, self.outputs(), self.pool.weights)
        arrays = {tensor.name: tensor for tensor in self.pool.weights}
        for name in self.overridable:
            graph.input.append(helper.make_tensor_value_info(name, self.elem_type, arrays[name].dims))
        made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", self.opset)])
        made.ir_version = (
            3 if self.opset <= 9 and self.chance(0.3) else max(7, helper.find_min_ir_version_for(made.opset_import))
        )
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
    return Maker(seed).model()
