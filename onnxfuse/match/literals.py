"""Comparing the constants of a match text with those of a model."""

from __future__ import annotations

import math

import numpy as np
from onnx import helper

from onnxfuse.match.pattern import Capture, Literal
from onnxfuse.match.view import normalise
from onnxfuse.model.attributes import Attribute
from onnxfuse.model.constants import Constants
from onnxfuse.model.graph import Tensor


class LiteralMatcher:
    """Compares constant values with the literals of match texts."""

    def __init__(self, constants: Constants) -> None:
        self._constants = constants

    def matches(self, literal: Literal, value: Tensor, rank: int | None) -> bool:
        """Tell whether a constant value is the literal; `rank`: what axes are counted in, None if they are none."""
        if isinstance(literal.value, tuple):
            actual = self._integers(value)
            return actual is not None and normalise(actual, rank) == normalise(literal.value, rank)
        actual_scalar = self._constants.scalar(value)
        if actual_scalar is None or isinstance(actual_scalar, bool) != isinstance(literal.value, bool):
            return False
        if actual_scalar == literal.value or literal.rtol == 0 or not math.isfinite(literal.value):
            return bool(actual_scalar == literal.value)
        tolerance = max(literal.rtol or 0.0, _epsilon(value))
        return bool(abs(actual_scalar - literal.value) <= tolerance * abs(literal.value))

    def capture(self, capture: Capture, value: Tensor, rank: int | None) -> Attribute | None:
        """Return the attribute that a constant value stands for, None if it has another kind or shape."""
        if capture.kind == "value_ints":
            integers = self._integers(value)
            return None if integers is None else normalise(integers, rank)
        scalar = self._constants.scalar(value)
        if scalar is None or isinstance(scalar, bool) or (capture.kind == "value_int") != isinstance(scalar, int):
            return None
        return scalar

    def _integers(self, value: Tensor) -> tuple[int, ...] | None:
        array = self._constants.small(value)
        if array is None or array.ndim != 1 or array.dtype.kind != "i":
            return None
        return tuple(int(element) for element in array)


def _epsilon(value: Tensor) -> float:
    """Return how far exporters' rounding can move a number of the value's type (relative); 0 for integers."""
    dtype = np.dtype(helper.tensor_dtype_to_np_dtype(value.elem_type or 0))
    if dtype.kind == "f":
        return float(np.finfo(dtype).eps)
    return 2.0**-7 if dtype.name == "bfloat16" else 0.0
