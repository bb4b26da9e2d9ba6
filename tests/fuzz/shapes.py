"""Shapes that are computed in the graph, as exporters of models with dynamic dims write them."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..helpers import tensor
from .maker import Shape
from .pieces import Pieces


class Shapes(Pieces):
    """Adds nodes that compute with shapes; only their results are values to go on from."""

    def hidden(self, op: str, inputs: list[str], **attributes: Any) -> str:
        """Add a node whose result is no value of the model's type."""
        name = self.add(op, inputs, (), **attributes)
        del self.pool.shapes[name]
        return name

    def ints(self, *values: int) -> str:
        return self.weight(np.asarray(values, np.int64))

    def shape_of(self, x: str) -> str:
        s = self.hidden("Shape", [x])
        if self.chance(0.2):
            s = self.hidden("Cast", [self.hidden("Cast", [s], to=6)], to=7)
        return s

    def dim(self, x: str, axis: int) -> str:
        """Return a dim of a value as a list of one number."""
        rank = len(self.pool.shapes[x])
        axis = axis - rank if self.chance(0.5) else axis
        s = self.shape_of(x)
        if self.chance(0.3):
            return self.hidden("Gather", [s, self.ints(axis)])
        if self.chance(0.3) and self.opset >= 10:
            ends = axis + 1 if axis != -1 else 2**31
            return self.hidden("Slice", [s, self.ints(axis), self.ints(ends)])
        single = self.hidden("Gather", [s, self.weight(np.asarray(axis, np.int64))])
        return self.unsqueezed(single)

    def unsqueezed(self, x: str) -> str:
        if self.opset >= 13:
            return self.hidden("Unsqueeze", [x, self.ints(0)])
        return self.hidden("Unsqueeze", [x], axes=[0])

    def target(self, x: str, dims: list[tuple[str, int]]) -> str:
        """Return a list of numbers, each computed or constant: (name of a computed one or "", number)."""
        return self.hidden("Concat", [name or self.ints(number) for name, number in dims], axis=0)

    def computed(self) -> None:
        """Reshape or expand a value by a shape that is computed."""
        x = self.pick()
        shape = self.pool.shapes[x]
        if not shape or 0 in shape:
            return
        kinds = [self.merged, self.divided_dim, self.copied, self.multiplied, self.expanded, self.like, self.filled]
        self.rng.choice(kinds)(x, shape)

    def merged(self, x: str, shape: Shape) -> None:
        """[d0, -1]"""
        self.add("Reshape", [x, self.target(x, [(self.dim(x, 0), 0), ("", -1)])], (shape[0], int(np.prod(shape[1:]))))

    def divided_dim(self, x: str, shape: Shape) -> None:
        """[..., k, last / k]"""
        k = self.rng.choice([k for k in (1, 2, 3, 4) if shape[-1] % k == 0])
        by = self.ints(k)
        last = self.hidden("Div", [self.dim(x, len(shape) - 1), by])
        lead = [(self.dim(x, i) if self.chance(0.7) else "", shape[i]) for i in range(len(shape) - 1)]
        tail = [("", k), (last, 0)] if self.chance(0.5) else [(by, 0), ("", -1)]
        self.add("Reshape", [x, self.target(x, [*lead, *tail])], (*shape[:-1], k, shape[-1] // k))

    def copied(self, x: str, shape: Shape) -> None:
        """[0, 0, -1]"""
        dims = [0 if self.chance(0.6) else d for d in shape]
        if self.chance(0.5):
            dims[self.rng.randrange(len(dims))] = -1
        self.add("Reshape", [x, self.ints(*dims)], shape)

    def multiplied(self, x: str, shape: Shape) -> None:
        """[d0 * d1, ...]"""
        if len(shape) < 2:
            return
        product = self.hidden("Mul", [self.dim(x, 0), self.dim(x, 1)])
        rest = [(self.dim(x, i), 0) for i in range(2, len(shape))]
        self.add("Reshape", [x, self.target(x, [(product, 0), *rest])], (shape[0] * shape[1], *shape[2:]))

    def expanded(self, x: str, shape: Shape) -> None:
        """Expand to the shape of another value, or of itself."""
        fit = [n for n, d in self.pool.shapes.items() if 0 not in d and fits(shape, d)]
        other = self.rng.choice(fit)
        self.add("Expand", [x, self.shape_of(other)], np.broadcast_shapes(shape, self.pool.shapes[other]))

    def like(self, x: str, shape: Shape) -> None:
        """Reshape to the shape of another value of as many elements."""
        fit = [n for n, d in self.pool.shapes.items() if np.prod(d) == np.prod(shape)]
        other = self.rng.choice(fit)
        self.add("Reshape", [x, self.shape_of(other)], self.pool.shapes[other])

    def filled(self, x: str, shape: Shape) -> None:
        """Add a tensor of one number, as large as the value."""
        number = np.asarray([self.rng.choice((0.0, 1.0))], self.dtype)
        ones = self.add("ConstantOfShape", [self.shape_of(x)], shape, value=tensor("", number))
        self.both(self.rng.choice(("Add", "Mul")), x, ones)


def fits(first: Shape, second: Shape) -> bool:
    try:
        np.broadcast_shapes(first, second)
    except ValueError:
        return False
    return True
