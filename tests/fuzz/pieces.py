"""The pieces that rules look for: whole, bent, tapped, shared."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from onnx import NodeProto, TensorProto

from .maker import Maker, Shape

_UNARY = ("Relu", "Neg", "Abs", "Tanh", "Sigmoid", "Identity", "Softplus")


class Pieces(Maker):
    """Adds pieces of one graph."""

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
