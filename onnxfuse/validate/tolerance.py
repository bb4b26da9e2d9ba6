"""How far a result may be from its reference.

An element may differ by ``rtol * |reference| + atol * scale``. The scale is the root mean square of the reference and
not 1: an element near zero carries the rounding noise of the large terms that cancelled in it, so it is judged by the
size of its surroundings; and outputs that are small as a whole (probabilities over thousands of classes) are judged by
their own size. Where slices along an axis differ in size (the scores beside the pixel coordinates of a detector), the
smallest slice of `SLICE_ELEMENTS` or more elements through the element sets the scale. `SCALE_FLOOR` bounds it below,
for outputs that are zero but for noise.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from onnx import AttributeProto, FunctionProto, GraphProto, ModelProto, NodeProto, TensorProto

SLICE_ELEMENTS = 64
SCALE_FLOOR = 1e-2
# Slices are looked at one by one only in outputs up to this many elements; the figures stay in a few dozen MB.
_SLICED_ELEMENTS = 1 << 22
_CHUNK = 1 << 20

# From fine to coarse; rtol and atol are the same figure. Quantization turns rounding noise into whole steps.
_DEFAULTS = {
    "float64": 1e-8,
    "float32": 1e-4,
    "float16": 1e-2,
    "bfloat16": 5e-2,
    "quantized": 5e-2,
    "float8": 0.25,
}
_ORDER = list(_DEFAULTS)
_PRECISION: dict[int, str] = {
    TensorProto.DOUBLE: "float64",
    TensorProto.FLOAT: "float32",
    TensorProto.FLOAT16: "float16",
    TensorProto.BFLOAT16: "bfloat16",
    TensorProto.COMPLEX64: "float32",
    TensorProto.COMPLEX128: "float64",
    TensorProto.FLOAT8E4M3FN: "float8",
    TensorProto.FLOAT8E4M3FNUZ: "float8",
    TensorProto.FLOAT8E5M2: "float8",
    TensorProto.FLOAT8E5M2FNUZ: "float8",
}
_ROUNDING_OPS = {"QuantizeLinear", "DynamicQuantizeLinear", "DynamicQuantizeMatMul", "MatMulNBits"}


@dataclass(frozen=True)
class Tolerance:
    """The bounds of one validation; ``rtol`` and ``atol`` override the defaults of every float type."""

    coarsest: str = "float64"
    rtol: float | None = None
    atol: float | None = None

    def of(self, dtype: np.dtype[Any]) -> tuple[float, float]:
        """Return (rtol, atol) for outputs of a float or complex type."""
        default = _DEFAULTS[max(_type_precision(dtype), self.coarsest, key=_ORDER.index)]
        return (
            default if self.rtol is None else self.rtol,
            default if self.atol is None else self.atol,
        )


def coarsest_precision(proto: ModelProto) -> str:
    """Return the coarsest float type a model computes in: its noise reaches outputs of any type."""
    found = {"float64"}
    for types, nodes in _bodies(proto):
        found.update(_PRECISION[number] for number in types if number in _PRECISION)
        for node in nodes:
            found.update(_node_precision(node))
    return max(found, key=_ORDER.index)


def scale_of(reference: np.ndarray) -> float | np.ndarray:
    """Return the scale of the reference: one figure, or one for each element where its slices differ in size."""
    whole = max(_rms(reference), SCALE_FLOOR)
    if not SLICE_ELEMENTS <= reference.size <= _SLICED_ELEMENTS:
        return whole
    slices = [profile for axis in range(reference.ndim) if (profile := _profile(reference, axis)) is not None]
    if not slices:
        return whole
    scale: np.ndarray = np.full(reference.shape, whole)
    for profile in slices:
        np.minimum(scale, np.maximum(profile, SCALE_FLOOR), out=scale)
    return scale


def _type_precision(dtype: np.dtype[Any]) -> str:
    if dtype.name in _DEFAULTS:
        return dtype.name
    if dtype.name.startswith("float8"):
        return "float8"
    return "float64" if dtype.itemsize > 8 else "float32"


def _node_precision(node: NodeProto) -> Iterator[str]:
    if node.op_type in _ROUNDING_OPS or node.op_type.startswith("QLinear"):
        yield "quantized"
    for attribute in node.attribute:
        if attribute.name == "to" and attribute.i in _PRECISION:
            yield _PRECISION[attribute.i]
        elif attribute.type == AttributeProto.TENSOR and attribute.t.data_type in _PRECISION:
            yield _PRECISION[attribute.t.data_type]


def _bodies(proto: ModelProto) -> Iterator[tuple[set[int], list[NodeProto]]]:
    """Yield (tensor types declared, nodes) of every graph and function body."""
    waiting: list[GraphProto | FunctionProto] = [proto.graph, *proto.functions]
    while waiting:
        body = waiting.pop()
        types: set[int] = set()
        if isinstance(body, GraphProto):
            types.update(tensor.data_type for tensor in body.initializer)
            types.update(value.type.tensor_type.elem_type for value in body.input)
        yield types, list(body.node)
        for node in body.node:
            for attribute in node.attribute:
                waiting.extend([attribute.g] if attribute.HasField("g") else attribute.graphs)


def _rms(array: np.ndarray) -> float:
    flat = array.reshape(-1)
    total, count = 0.0, 0
    for start in range(0, flat.size, _CHUNK):
        block = np.abs(flat[start : start + _CHUNK]).astype(np.float64)
        block = block[np.isfinite(block)]
        total += float(np.square(block).sum())
        count += block.size
    return float(np.sqrt(total / count)) if count else 0.0


def _profile(array: np.ndarray, axis: int) -> np.ndarray | None:
    """Return the root mean square of each slice along ``axis``, None where slices are too small to tell."""
    if array.shape[axis] < 2 or array.size // array.shape[axis] < SLICE_ELEMENTS:
        return None
    squares = np.abs(array).astype(np.float64)
    squares[~np.isfinite(squares)] = 0.0
    np.square(squares, out=squares)
    others = tuple(other for other in range(array.ndim) if other != axis)
    return np.asarray(np.sqrt(squares.mean(axis=others, keepdims=True)))
