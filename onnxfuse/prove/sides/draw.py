"""Data for samples: random, and the special kinds that random data never contains."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from onnx import TensorProto, helper

# Kinds of data: besides plain random numbers, rows of one repeated number, nothing but zeros, and large numbers.
RANDOM, ROWS, ZEROS, LARGE = "random", "constant rows", "zeros", "large"
KINDS = (RANDOM, ROWS, ZEROS, LARGE)

# How large: squares and sums of some hundred of them must not overflow.
_LARGE: dict[int, float] = {TensorProto.FLOAT16: 16.0, TensorProto.BFLOAT16: 1e3}


def draw(
    shape: tuple[int, ...], elem_type: int, limits: tuple[float, float] | None, generator: np.random.Generator
) -> NDArray[Any]:
    """Return random data: within `limits` if given, else normal; whole numbers from -5 to 5."""
    dtype = np.dtype(helper.tensor_dtype_to_np_dtype(elem_type))
    if limits is not None:
        return np.asarray(generator.uniform(*limits, shape)).astype(dtype)
    if dtype.kind in "iu":
        return np.asarray(generator.integers(0 if dtype.kind == "u" else -5, 6, shape)).astype(dtype)
    normal = np.asarray(generator.standard_normal(shape))
    return np.asarray(normal > 0) if dtype.kind == "b" else normal.astype(dtype)


def special(kind: str, array: NDArray[Any], elem_type: int) -> NDArray[Any]:
    """Return data of a special kind in the shape of some random data."""
    if kind == ROWS and array.ndim:
        return np.ascontiguousarray(np.broadcast_to(array[..., :1], array.shape))
    if kind == ZEROS:
        return np.zeros_like(array)
    if kind == LARGE and is_float(array):
        return np.asarray(array.astype(np.float64) * _LARGE.get(elem_type, 1e4)).astype(array.dtype)
    return array


def nudged(array: NDArray[Any], generator: np.random.Generator) -> NDArray[Any]:
    """Return the data with each number moved by a random part of its last bit: how much that matters is noise."""
    if not is_float(array):
        return array
    bits = np.dtype(array.dtype)
    epsilon = 2.0**-8 if bits.name == "bfloat16" else float(np.finfo(bits).eps)
    wide = array.astype(np.float64)
    return np.asarray(wide * (1 + epsilon * generator.uniform(-1, 1, array.shape))).astype(array.dtype)


def is_float(array: NDArray[Any]) -> bool:
    """Tell whether an array holds floating-point numbers."""
    return array.dtype.kind == "f" or array.dtype.name == "bfloat16"
