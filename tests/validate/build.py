"""Models for these tests: ONNX text plus weights."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import onnx
from onnx import numpy_helper

from onnxfuse.model.file import ModelFile, from_proto


def proto(
    text: str, weights: Mapping[str, np.ndarray] | None = None, *, opset: int = 20, ir: int = 9
) -> onnx.ModelProto:
    """Return the model of a graph text, its weights added as initializers."""
    header = f'<ir_version: {ir}, opset_import: ["": {opset}, "ai.onnx.ml": 3]>\n'
    model = onnx.parser.parse_model(header + text)
    model.graph.initializer.extend(numpy_helper.from_array(array, name) for name, array in (weights or {}).items())
    return model


def model(text: str, weights: Mapping[str, np.ndarray] | None = None, *, opset: int = 20, ir: int = 9) -> ModelFile:
    """Return `proto` as a model file in memory."""
    return from_proto(proto(text, weights, opset=opset, ir=ir))


def noise(*shape: int, seed: int = 0) -> np.ndarray:
    """Return float32 weights of unit scale."""
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


EMBEDDER = """
g (int64[batch, sequence] input_ids, int64[batch, sequence] attention_mask) => (float[batch, sequence, 4] y) {
    rows = Gather (table, input_ids)
    mask = Cast <to = 1> (attention_mask)
    axis = Constant <value = int64[1] {2}> ()
    wide = Unsqueeze (mask, axis)
    y = Mul (rows, wide)
}
"""

# LayerNormalization written by hand, and a convolution before a BatchNormalization: what rewrites are about.
NETWORK = """
g (float[batch, 3, height, width] x) => (float[batch, 8] pooled, float[batch, 8, h2, w2] normed) {
    conv = Conv <pads = [1, 1, 1, 1]> (x, w, b)
    normed = BatchNormalization <epsilon = 0.00001> (conv, scale, shift, mean, var)
    flat = GlobalAveragePool (normed)
    vec = Flatten (flat)
    axes = Constant <value = int64[1] {1}> ()
    mu = ReduceMean (vec, axes)
    d = Sub (vec, mu)
    two = Constant <value = float {2.0}> ()
    d2 = Pow (d, two)
    v = ReduceMean (d2, axes)
    eps = Constant <value = float {0.00001}> ()
    ve = Add (v, eps)
    sd = Sqrt (ve)
    pooled = Div (d, sd)
}
"""


def network_weights() -> dict[str, np.ndarray]:
    """Return weights for NETWORK."""
    return {
        "w": noise(8, 3, 3, 3) / 5,
        "b": noise(8, seed=1),
        "scale": noise(8, seed=2),
        "shift": noise(8, seed=3),
        "mean": noise(8, seed=4),
        "var": np.square(noise(8, seed=5)) + np.float32(0.1),
    }
