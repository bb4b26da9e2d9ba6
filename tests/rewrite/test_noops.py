"""Operators that leave shape and elements as they are go; those that only might do so stay."""

from __future__ import annotations

import numpy as np
import pytest

from onnxfuse.pipeline import optimize

from ..helpers import fused, model, noise, ops, run

CONSTANTS = """int64[4] zeros = {0, 0, 0, 0}, int64[1] one = {1}, int64[1] zero = {0},
    int64[1] most = {9223372036854775807}, int64[1] three = {3}, int64[1] back = {-1},
    int64[1] none = {-9223372036854775807},
    int64[8] unpadded = {0, 0, 0, 0, 0, 0, 0, 0}, int64[8] shifted = {0, -1, 0, 0, 0, 1, 0, 0},
    int64[3] shape = {1, 1, 4},
    int64[4] ones = {1, 1, 1, 1}, int64[4] twice = {1, 1, 2, 1}, int64[4] flat = {0, 3, 1, -1},
    int64[4] moved = {0, 1, 3, 4},
    int64[4] wide = {1, 3, 2, 1}"""
HEAD = f"g (float[n,3,1,4] x) => (float[%s] y) <{CONSTANTS}> "


def left(line: str, dims: str = "n,3,1,4", opset: int = 18) -> dict[str, int]:
    """Return the operators that are left of a line between two others; what it computes must stay the same."""
    proto = model(f"{HEAD % dims} {{ a = Neg (x)  b = {line}  y = Abs (b) }}", opset=opset)
    result = fused(proto).model
    feeds = {"x": noise(2, 3, 1, 4)}
    np.testing.assert_array_equal(run(result, feeds)["y"], run(proto, feeds)["y"])
    return ops(result)


@pytest.mark.parametrize("line, opset", [
    ("Reshape (a, zeros)", 13), ("Reshape (a, flat)", 13), ("Expand (a, shape)", 13), ("Expand (a, ones)", 13),
    ("Tile (a, ones)", 13), ("Pad (a, unpadded)", 13), ('Pad <mode = "reflect"> (a, unpadded)', 13),
    ("Pad <pads = [0, 0, 0, 0, 0, 0, 0, 0]> (a)", 9), ("Concat <axis = 1> (a)", 13), ("Sum (a)", 13), ("Max (a)", 13),
    ("Min (a)", 13), ("Transpose <perm = [0, 1, 2, 3]> (a)", 13), ("Split <axis = 1> (a)", 13),
    ("Slice (a, zero, most, one)", 13), ("Slice (a, zero, most, zero)", 13), ("Slice (a, zero, three, one, one)", 13),
    ("Slice <starts = [0], ends = [2147483647], axes = [0]> (a)", 9), ("Slice (a, zero, three, one)", 11),
])  # fmt: skip
def test_no_ops_go(line: str, opset: int) -> None:
    assert left(line, opset=opset) == {"Neg": 1, "Abs": 1}


@pytest.mark.parametrize("line, dims", [
    ("Reshape (a, moved)", "n,1,3,4"), ("Expand (a, twice)", "n,3,2,4"), ("Expand (a, wide)", "n,3,2,4"),
    ("Tile (a, twice)", "n,3,2,4"), ("Pad (a, shifted)", "n,3,1,4"), ("Concat <axis = 2> (a, a)", "n,3,2,4"),
    ("Sum (a, x)", "n,3,1,4"), ("Transpose <perm = [0, 2, 1, 3]> (a)", "n,1,3,4"), ("Transpose (a)", "4,1,3,n"),
    ("Slice (a, back, none, one, back)", "n,3,1,4"), ("Slice (a, one, most, zero)", "m,3,1,4"),
    ("Slice (a, zero, most, one, three)", "n,1,1,4"), ("Slice (a, zero, one, zero)", "m,3,1,4"),
])  # fmt: skip
def test_what_moves_elements_stays(line: str, dims: str) -> None:
    assert sum(left(line, dims).values()) == 3


def test_of_an_unknown_shape_nothing_is_assumed() -> None:
    text = "g (float[] x, int64[k] s) => (float y) { a = Neg (x)  b = Reshape (a, s)  y = Abs (b) }"
    # The ranks that the helpers would draw for `x` and `s` do not go together, so nothing is run here.
    assert ops(optimize(model(text), validate=False).model) == {"Neg": 1, "Reshape": 1, "Abs": 1}


def test_the_shape_that_only_a_no_op_read_goes_too() -> None:
    text = """g (float[n,3] x) => (float[n,3] y) <int64[1] i = {0}, int64[1] three = {3}> {
        s = Shape (x)  n = Gather (s, i)  t = Concat <axis = 0> (n, three)
        a = Neg (x)  b = Reshape (a, t)  y = Abs (b) }"""
    assert ops(fused(model(text)).model) == {"Neg": 1, "Abs": 1}


def test_dims_after_a_pad_by_computed_pads() -> None:
    text = """g (float[n,3] x) => (float[n] y)
        <int64[1] four = {4}, int64[1] size = {5}, int64[2] some = {0, 1}, int64[1] last = {1}> {
        z = ConstantOfShape (four)  f = Cast <to = 1> (z)  i = Cast <to = 7> (f)  p = Pad (x, i)
        s = Shape (p)  r = Reshape (p, s)  y = ReduceSum <keepdims = 0> (r, last) }"""
    assert ops(fused(model(text)).model) == {"ReduceSum": 1}


def test_a_folded_scalar_stays_a_scalar() -> None:
    text = """g (float[n,6] x) => (float[n,6] y, int64[1] k) <int64 one = {1}, int64[1] zero = {0}, int64 two = {2}> {
        s = Shape (x)  n = Gather (s, one)  m = Div (n, two)  b = Shape <end = 1> (x)  z = Gather (b, zero)
        v = Mul (z, m)  k = Identity (v)  y = Neg (x) }"""
    result = fused(model(text)).model
    assert [list(t.dims) for t in result.graph.initializer if t.name in ("n", "m")] == [[]]


def test_what_a_constant_too_large_to_fold_reads_is_folded() -> None:
    text = """g (float[40,40] x) => (float[40,40] y) <int64 zero = {0}, int64 one = {1}, int64 limit = {40},
        int64[1] front = {0},
        int64[1] back = {1}> {
        r = Range (zero, limit, one)  row = Unsqueeze (r, front)  column = Unsqueeze (r, back)
        d = Sub (row, column)  f = Cast <to = 1> (d)  y = Add (x, f) }"""
    assert ops(fused(model(text)).model) == {"Sub": 1, "Cast": 1, "Add": 1}
