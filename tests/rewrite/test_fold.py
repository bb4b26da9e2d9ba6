"""New constants: computed in float64, rounded once, refused where not finite, never written over old ones."""

from __future__ import annotations

import numpy as np
import pytest

from onnxfuse.pipeline import optimize

from ..helpers import batchnorm, find, fused, misses, model, noise, ops, weight, weight_names

CONV_BN = "{ t = Conv (x, w)  y = BatchNormalization <epsilon = 0.001> (t, s, o, m, v) }"


def conv_weights(dtype: str = "float32") -> dict[str, np.ndarray]:
    return {"w": noise(3, 2, 3, 3, dtype=dtype), **batchnorm(3, dtype=dtype)}


def exact(w: dict[str, np.ndarray], epsilon: float) -> tuple[np.ndarray, np.ndarray]:
    """Return weight and bias of Conv and BatchNormalization in one, in float64, by the definition of the operators."""
    s, o, m, v = (w[name].astype(np.float64) for name in "somv")
    k = s / np.sqrt(v + float(np.float32(epsilon)))
    return w["w"].astype(np.float64) * k[:, None, None, None], o - m * k


@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_constants_are_rounded_once(dtype: str) -> None:
    weights = conv_weights(dtype)
    onnx_type = {"float16": "float16", "float32": "float"}[dtype]
    text = f"g ({onnx_type}[1,2,5,5] x) => ({onnx_type}[1,3,3,3] y) {CONV_BN}"
    result = fused(model(text, weights)).model
    conv = find(result, "Conv")
    kernel, bias = exact(weights, 0.001)
    np.testing.assert_array_equal(weight(result, conv.input[1]), kernel.astype(dtype))
    np.testing.assert_array_equal(weight(result, conv.input[2]), bias.astype(dtype))


def test_no_overflow_half_way_in_float16() -> None:
    """Both products with the scale, 3 * 6e4 and 100 * 6e4, are beyond float16; what is left after the root is not."""
    weights = {
        "w": np.full((1, 1, 1, 1), 3.0, np.float16),
        "s": np.full(1, 6e4, np.float16),
        "o": np.zeros(1, np.float16),
        "m": np.full(1, 100, np.float16),
        "v": np.full(1, 6e4, np.float16),
    }
    proto = model("g (float16[1,1,2,2] x) => (float16[1,1,2,2] y) " + CONV_BN, weights)
    result = optimize(proto, validate=False).model
    kernel, bias = exact(weights, 0.001)
    conv = find(result, "Conv")
    assert 2e4 < np.abs(bias) < 3e4
    np.testing.assert_array_equal(weight(result, conv.input[1]), kernel.astype(np.float16))


def test_folds_that_are_not_finite_are_refused() -> None:
    weights = conv_weights()
    weights["v"][1] = -0.001  # with epsilon a division by zero
    weights["s"][1] = 1.0
    proto = model("g (float[1,2,5,5] x) => (float[1,3,3,3] y) { t = Conv (x, w) "
                  " y = BatchNormalization <epsilon = 0.001> (t, s, o, m, v) }", weights)  # fmt: skip
    result = optimize(proto, validate=False)
    assert ops(result.model) == {"Conv": 1, "BatchNormalization": 1}
    assert "not finite" in misses(result, "conv-batchnorm")[0]


def test_folds_beyond_float16_are_refused() -> None:
    weights = conv_weights("float16")
    weights["s"][:] = 6e4
    weights["v"][:] = 1e-3
    result = fused(model("g (float16[1,2,5,5] x) => (float16[1,3,3,3] y) " + CONV_BN, weights))
    assert ops(result.model) == {"Conv": 1, "BatchNormalization": 1}
    assert "not finite in float16" in misses(result, "conv-batchnorm")[0]


def test_shared_weights_are_copied_never_changed() -> None:
    """One kernel feeds two convolutions with a BatchNormalization each, and a third without."""
    text = """g (float[1,2,5,5] x) => (float[1,3,3,3] y, float[1,3,3,3] z, float[1,3,3,3] q) {
        a = Conv (x, w)  y = BatchNormalization (a, s, o, m, v)
        b = Conv (x, w)  z = BatchNormalization (b, o, s, m, v)
        q = Conv (x, w) }"""
    weights = conv_weights()
    result = fused(model(text, weights)).model
    assert ops(result) == {"Conv": 3}
    np.testing.assert_array_equal(weight(result, "w"), weights["w"])
    assert len({node.input[1] for node in result.graph.node}) == 3


def test_weights_whose_last_reader_went_are_dropped() -> None:
    result = fused(model("g (float[1,2,5,5] x) => (float[1,3,3,3] y) " + CONV_BN, conv_weights())).model
    assert weight_names(result) == set(result.graph.node[0].input[1:])


def test_a_weight_that_is_an_output_stays() -> None:
    proto = model("g (float[1,2,5,5] x) => (float[1,3,3,3] y, float[3] s) " + CONV_BN, conv_weights())
    result = fused(proto).model
    assert ops(result) == {"Conv": 1}
    assert "s" in weight_names(result)


def test_dead_weights_that_were_dead_before_stay_if_dead_code_does() -> None:
    proto = model("g (float[1,2,5,5] x) => (float[1,3,3,3] y) " + CONV_BN, {**conv_weights(), "unused": noise(2)})
    assert "unused" in weight_names(fused(proto, ignore=["dead-code"]).model)


def test_absent_bias_and_given_bias() -> None:
    text = "g (float[1,2,5,5] x) => (float[1,3,3,3] y) "
    with_bias = CONV_BN.replace("(x, w)", "(x, w, b)")
    weights = {**conv_weights(), "b": noise(3, seed=9)}
    result = fused(model(text + with_bias, weights)).model
    _, bias = exact(weights, 0.001)
    k = weights["s"] / np.sqrt(weights["v"].astype(np.float64) + float(np.float32(0.001)))
    np.testing.assert_allclose(weight(result, find(result, "Conv").input[2]), bias + k * weights["b"], rtol=1e-6)


def test_constants_computed_in_the_graph_are_folded() -> None:
    text = """g (float[1,2,5,5] x) => (float[1,3,3,3] y) <float half = {0.5}> {
        w2 = Mul (w, half)  s2 = Neg (s)  t = Conv (x, w2)  y = BatchNormalization (t, s2, o, m, v) }"""
    assert ops(fused(model(text, conv_weights())).model) == {"Conv": 1}


def test_a_constant_chain_longer_than_python_can_recurse() -> None:
    lines = " ".join(f"c{i + 1} = Neg (c{i})" for i in range(1500))
    text = (
        "g (float[1,2,5,5] x) => (float[1,3,3,3] y) { %s  t = Conv (x, w)  y = BatchNormalization (t, c1500, o, m, v) }"
    )
    assert ops(fused(model(text % lines, {**conv_weights(), "c0": noise(3)})).model) == {"Conv": 1}


def test_a_quantized_weight_stays_quantized() -> None:
    text = """g (float[1,2,5,5] x) => (float[1,3,3,3] y) <float step = {0.1}, int8 zero = {0}> {
        w = DequantizeLinear (q, step, zero)  t = Conv (x, w)  y = BatchNormalization (t, s, o, m, v) }"""
    quantized = (noise(3, 2, 3, 3) * 50).astype(np.int8)
    result = fused(model(text, {"q": quantized, **batchnorm(3)}, opset=19))
    assert ops(result.model) == {"DequantizeLinear": 1, "Conv": 1, "BatchNormalization": 1}
    assert misses(result, "conv-batchnorm") == ["w ('w') is not constant"]


def test_grouped_transposed_convolution() -> None:
    """The scale of group g belongs to the kernels of group g: checked element by element against the definition."""
    weights = {"w": noise(4, 3, 3, 2), **batchnorm(6)}
    text = """g (float[1,4,5,6] x) => (float[1,6,h,w] y) {
        t = ConvTranspose <group = 2> (x, w)  y = BatchNormalization <epsilon = 0.01> (t, s, o, m, v) }"""
    result = fused(model(text, weights)).model
    assert ops(result) == {"ConvTranspose": 1}
    k = weights["s"] / np.sqrt(weights["v"].astype(np.float64) + float(np.float32(0.01)))
    expected = weights["w"].astype(np.float64).copy()
    for channel in range(4):
        for m in range(3):
            expected[channel, m] *= k[channel // 2 * 3 + m]
    np.testing.assert_allclose(weight(result, find(result, "ConvTranspose").input[1]), expected, rtol=1e-6)


def test_weights_that_do_not_fit_each_other_are_left_alone() -> None:
    """No type says how many channels a ConvTranspose of two groups gives: 8 here, of which the scale has 4."""
    weights = {"w": noise(4, 4, 3, 3), **batchnorm(4)}
    text = """g (float[1,4,5,5] x) => (float[1,8,7,7] y)
        { t = ConvTranspose <group = 2> (x, w)  y = BatchNormalization (t, s, o, m, v) }"""
    result = optimize(model(text, weights), validate=False)
    assert not result.fusions
    assert any("its new weights cannot be computed" in reason for reason in misses(result, "convtranspose-batchnorm"))
