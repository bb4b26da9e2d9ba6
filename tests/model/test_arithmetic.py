"""Plain operators in NumPy give what onnx's reference implementation gives, or leave it to that."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import ModelProto, helper, numpy_helper, parser
from onnx.reference import ReferenceEvaluator

from onnxfuse.model import arithmetic

X = np.array([[[1.5, -2.0], [0.25, 3.0], [-0.5, 4.0]]], np.float32)
FEEDS: dict[str, Any] = {
    "x": X, "z": X[::-1] * 2 + 1, "row": X[0, 0], "h": X.astype(np.float16), "d": X.astype(np.float64),
    "i": np.array([[7, -7], [3, 2]]), "j": np.array([[2, 2], [-2, 5]]), "k": np.array([1, 0, -1]),
    "s": np.array([3, 2]), "zero": np.array([0, -1]), "axes": np.array([0]), "last": np.array([-1]),
    "all": np.array([-2, -1]), "one": np.array(1.0, np.float32), "positive": np.abs(X),
    "b": np.array([[True, False], [False, True]]), "start": np.array(1), "limit": np.array(7), "delta": np.array(2),
    "square": X[0, 1:],
}  # fmt: skip
PLAIN = [
    "Add (x, z)", "Add (x, row)", "Sub (x, one)", "Mul (i, j)", "Mul (h, h)", "Div (x, z)", "Div (d, d)", "Neg (x)",
    "Neg (i)", "Sqrt (positive)", "Sqrt (x)", "Reciprocal (x)", "Identity (i)", "Cast <to = 1> (i)",
    "Cast <to = 7> (x)", "Cast <to = 11> (x)", "Cast <to = 10> (d)", "Cast <to = 9> (i)", "Concat <axis = 1> (x, z)",
    "Concat <axis = -1> (x, z)", "ConstantOfShape (s)", "ConstantOfShape <value = int64[1] {7}> (s)", "Flatten (x)",
    "Flatten <axis = 0> (x)", "Flatten <axis = -1> (x)", "Flatten <axis = 3> (x)", "Gather (x, axes)",
    "Gather <axis = 1> (x, k)", "Gather <axis = -1> (x, last)", "Reshape (x, s)", "Reshape (x, zero)", "Shape (x)",
    "Shape <start = 1> (x)", "Shape <start = -2, end = -1> (x)", "Shape <end = 9> (x)", "Squeeze (x)",
    "Squeeze (x, axes)", "Transpose (x)", "Transpose <perm = [2, 0, 1]> (x)", "Unsqueeze (x, axes)",
    "Unsqueeze (x, all)", "Constant <value_ints = [1, 2]> ()", "Constant <value_float = 0.5> ()",
    "Constant <value_int = 3> ()", "Constant <value = float[2] {1, 2}> ()", "ReduceMin (x)",
    "ReduceMin <keepdims = 0> (k)", "ReduceMin (x, last)", "ReduceMax (x)", "ReduceSum <keepdims = 0> (i, axes)",
    "ReduceProd (k)", "Div (i, j)", "Abs (i)", "Max (x, z)", "Min (i, j)", "Equal (i, j)", "Less (x, z)",
    "LessOrEqual (i, j)", "Greater (x, z)", "GreaterOrEqual (i, j)", "And (b, b)", "Or (b, b)", "Not (b)",
    "Where (b, i, j)", "Range (start, limit, delta)", "Size (x)", "Slice (x, axes, last, last)",
    "Slice (k, axes, last)",
    "Expand (row, s)", "Expand (one, s)", "MatMul (x, square)", "MatMul (x, row)",
]  # fmt: skip
LEFT = [
    "Div (i, k)", "Add (x, d)", "Erf (x)", "Max (x, x, x)", "Slice (k, last, axes, axes, last)",
    "Cast <to = 16> (x)", "Reshape <other = 1> (x, s)",
    "Concat <axis = 0> (x, h)", "Add (x, k)",
]  # fmt: skip


def model(line: str, opset: int = 18) -> ModelProto:
    made = parser.parse_model(f'<ir_version: 8, opset_import: ["" : {opset}]> g () => (float y) {{ y = {line} }}')
    read = {name for node in made.graph.node for name in node.input}
    made.graph.input.extend(
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(value.dtype), value.shape)
        for name, value in FEEDS.items()
        if name in read
    )
    return made


@pytest.mark.parametrize("line", PLAIN)
def test_equals_the_reference(line: str) -> None:
    made = model(line)
    feeds = {value.name: FEEDS[value.name] for value in made.graph.input}
    with np.errstate(all="ignore"):
        (want,) = ReferenceEvaluator(made).run(None, feeds)
    found = arithmetic.compute(made.graph.node, feeds, ["y"])
    assert found is not None
    (got,) = found
    assert (got.dtype, got.shape) == (np.asarray(want).dtype, np.asarray(want).shape)
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("line", LEFT)
def test_what_is_not_plain_is_left(line: str) -> None:
    assert arithmetic.compute(model(line).graph.node, FEEDS, ["y"]) is None


def test_axes_as_attribute_below_opset_13() -> None:
    for line in ("Unsqueeze <axes = [0, 2]> (x)", "Squeeze <axes = [0]> (x)"):
        made = model(line, opset=11)
        (want,) = ReferenceEvaluator(made).run(None, {"x": X})
        (got,) = arithmetic.compute(made.graph.node, {"x": X}, ["y"]) or [np.zeros(0)]
        np.testing.assert_array_equal(got, want)


def test_values_pass_from_node_to_node() -> None:
    nodes = [helper.make_node("Mul", ["x", "x"], ["a"]), helper.make_node("Add", ["a", "c"], ["b"])]
    nodes.insert(0, helper.make_node("Constant", [], ["c"], value=numpy_helper.from_array(np.array(2, np.float32))))
    (got,) = arithmetic.compute(nodes, {"x": X}, ["b"]) or [np.zeros(0)]
    np.testing.assert_array_equal(got, X * X + 2)
