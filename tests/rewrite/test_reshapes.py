"""Reshapes with a computed shape that get a constant one, and computed shapes that are the same."""

from __future__ import annotations

from collections import Counter

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import numpy_helper, parser

import onnxfuse

HEAD = '<ir_version: 8, opset_import: ["" : 14]> g '
CONSTANTS = "<int64[1] zero = {0}, int64[1] one = {1}, int64[1] four = {4}, int64[1] eight = {8}, int64[1] rest = {-1}>"


def optimized(text: str) -> tuple[onnx.ModelProto, onnx.ModelProto]:
    model = parser.parse_model(HEAD + text)
    return model, onnxfuse.optimize(model, validate=False).model


def run(model: onnx.ModelProto, x: np.ndarray) -> np.ndarray:
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    session = ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return np.asarray(session.run(None, {"x": x})[0])


def shape_operand(model: onnx.ModelProto) -> list[int] | None:
    reshape = next(node for node in model.graph.node if node.op_type == "Reshape")
    found = [t for t in model.graph.initializer if t.name == reshape.input[1]]
    return list(numpy_helper.to_array(found[0])) if found else None


@pytest.mark.parametrize(
    ("shape", "expected"),
    [
        ("n = Gather (s, zero) m = Gather (s, one) t = Concat <axis = 0> (n, m, four, eight)", [0, 0, 4, 8]),
        ("n = Gather (s, zero) t = Concat <axis = 0> (n, rest)", [0, -1]),  # the model itself says -1
        ("m = Gather (s, one) t = Concat <axis = 0> (m, four, eight)", [-1, 4, 8]),  # m moves, and only numbers remain
    ],
)
@pytest.mark.parametrize("size", [(2, 3), (1, 1), (0, 3)])
def test_a_computed_shape_becomes_constant(shape: str, expected: list[int], size: tuple[int, int]) -> None:
    text = f"(float[n, m, 32] x) => (float y) {CONSTANTS} {{ s = Shape (x) {shape} u = Reshape (x, t) y = Relu (u) }}"
    before, after = optimized(text)
    assert shape_operand(after) == expected
    assert Counter(node.op_type for node in after.graph.node) == {"Reshape": 1, "Relu": 1}
    x = np.random.default_rng(0).standard_normal((*size, 32)).astype(np.float32)
    if "Gather (s, zero)" not in shape and size[0] != 1:
        return  # such a model runs with a batch of 1 only
    if size == (0, 3) and "rest" in shape:
        return  # onnxruntime refuses the original, too: -1 beside a dim of 0
    np.testing.assert_array_equal(run(after, x), run(before, x))


@pytest.mark.parametrize(
    "shape",
    [
        "n = Gather (s, zero) m = Gather (s, one) t = Concat <axis = 0> (m, n, four, eight)",  # both move
        "n = Gather (s, zero) m = Gather (s, one) k = Mul (m, four) t = Concat <axis = 0> (n, k, eight)",  # -1 beside n
    ],
)
def test_what_a_constant_cannot_say_stays_computed(shape: str) -> None:
    text = f"(float[n, m, 32] x) => (float y) {CONSTANTS} {{ s = Shape (x) {shape} u = Reshape (x, t) y = Relu (u) }}"
    before, after = optimized(text)
    assert shape_operand(after) is None
    x = np.random.default_rng(0).standard_normal((2, 3, 32)).astype(np.float32)
    np.testing.assert_array_equal(run(after, x), run(before, x))


def test_allowzero_is_dropped_where_the_new_shape_copies_dims() -> None:
    text = f"""(float[n, m, 32] x) => (float y) {CONSTANTS} {{
        s = Shape (x) n = Gather (s, zero) m = Gather (s, one) t = Concat <axis = 0> (n, m, four, eight)
        u = Reshape <allowzero = 1> (x, t) y = Relu (u)
    }}"""
    before, after = optimized(text)
    assert shape_operand(after) == [0, 0, 4, 8]
    for size in ((2, 3), (0, 3)):
        x = np.zeros((*size, 32), np.float32)
        assert run(after, x).shape == run(before, x).shape == (*size, 4, 8)


def test_a_real_zero_under_allowzero_stays() -> None:
    text = f"""(float[n, m, 32] x) => (float y) {CONSTANTS} {{
        s = Shape (x) n = Gather (s, zero) t = Concat <axis = 0> (zero, n, four)
        u = Reshape <allowzero = 1> (x, t) y = Relu (u)
    }}"""
    before, after = optimized(text)
    x = np.zeros((0, 3, 32), np.float32)
    assert run(after, x).shape == run(before, x).shape == (0, 0, 4)


def test_shapes_with_the_same_elements_are_computed_once() -> None:
    text = f"""(float[n, 4] x, float[n, 4] z) => (int64[1] a, int64[1] b, int64[1] c) {CONSTANTS} {{
        s = Shape (x) p = Gather (s, zero) a = Add (p, one)
        r = Relu (z) q = Shape (r) k = Slice (q, zero, one) b = Mul (k, four) c = Mul (p, eight)
    }}"""
    _, after = optimized(text)
    assert Counter(node.op_type for node in after.graph.node) == {"Shape": 1, "Gather": 1, "Add": 1, "Mul": 2}
