"""Result against reference, output by output: dtype, shape and values.

Integers, bools and strings must be equal; floats must lie within the bounds of `tolerance`, with NaN and infinities in
the same places. Sequences, maps and optionals are compared element by element.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from onnxfuse.validate.result import OutputCheck
from onnxfuse.validate.sessions import Value
from onnxfuse.validate.tolerance import Tolerance, scale_of

_CHUNK = 1 << 20
_LARGEST = float(np.finfo(np.float64).max)


@dataclass
class _Worst:
    """The figures of an output while its elements go by."""

    max_abs: float = 0.0
    max_rel: float = 0.0
    bound_there: float = 0.0
    ratio: float = 0.0
    bound_worst: float = 0.0

    def see(
        self, error: np.ndarray, reference: np.ndarray, scale: float | np.ndarray, rtol: float, atol: float
    ) -> None:
        """Take in the finite differences of some elements."""
        if not error.size:
            return
        size = np.abs(reference)
        bound = rtol * size + atol * scale
        self.max_rel = max(self.max_rel, float((error / np.maximum(size, scale)).max()))
        at = int(error.argmax())
        if error[at] >= self.max_abs:
            self.max_abs, self.bound_there = float(error[at]), float(bound[at])
        # A bound of 0 (rtol and atol given as 0) asks for equality.
        ratio = np.where(error == 0, 0.0, error / np.maximum(bound, 1e-300))
        at = int(ratio.argmax())
        if ratio[at] > self.ratio:
            self.ratio, self.bound_worst = float(ratio[at]), float(bound[at])

    @property
    def tolerance(self) -> float:
        return self.bound_worst if self.ratio > 1 else self.bound_there


def compare(name: str, reference: Value, result: Value, tolerance: Tolerance) -> OutputCheck:
    """Return the check of one output; never raises for values that differ."""
    if isinstance(reference, np.ndarray) and isinstance(result, np.ndarray):
        return _tensors(name, reference, result, tolerance)
    if isinstance(reference, list) and isinstance(result, list):
        return _collections(name, dict(enumerate(reference)), dict(enumerate(result)), tolerance)
    if isinstance(reference, dict) and isinstance(result, dict):
        return _collections(name, reference, result, tolerance)
    if type(reference) is not type(result):
        return failed(name, f"{_kind(result)} where the original gives {_kind(reference)}")
    return _tensors(name, np.asarray(reference), np.asarray(result), tolerance)


def failed(name: str, note: str, dtype: str = "", shape: tuple[int, ...] = ()) -> OutputCheck:
    """Return the check of an output that has no figures to compare."""
    return OutputCheck(name, dtype, shape, 0.0, 0.0, 0.0, ok=False, note=note)


def structure_only(name: str, reference: Value, result: Value, note: str) -> OutputCheck:
    """Return a check of dtype and shape alone, for outputs that are random in the original."""
    if not (isinstance(reference, np.ndarray) and isinstance(result, np.ndarray)):
        return OutputCheck(name, _kind(reference), (), 0.0, 0.0, 0.0, ok=type(reference) is type(result), note=note)
    problem = _structure_problem(reference, result)
    if problem:
        return failed(name, problem, reference.dtype.name, reference.shape)
    return OutputCheck(name, reference.dtype.name, reference.shape, 0.0, 0.0, 0.0, ok=True, note=note)


def _kind(value: Value) -> str:
    names = {list: "sequence", dict: "map", type(None): "none", np.ndarray: "tensor"}
    return names.get(type(value), type(value).__name__)


def _tensors(name: str, reference: np.ndarray, result: np.ndarray, tolerance: Tolerance) -> OutputCheck:
    problem = _structure_problem(reference, result)
    if problem:
        return failed(name, problem, reference.dtype.name, reference.shape)
    judge = _floats if _is_inexact(reference.dtype) else _exact
    check = judge(name, reference, result, tolerance)
    if check.ok and not check.note:
        return replace(check, note=_weakness(reference))
    return check


def _structure_problem(reference: np.ndarray, result: np.ndarray) -> str:
    if reference.dtype != result.dtype:
        return f"{result.dtype} where the original gives {reference.dtype}"
    if reference.shape != result.shape:
        return f"shape {list(result.shape)} where the original gives {list(reference.shape)}"
    return ""


def _weakness(reference: np.ndarray) -> str:
    """Say so when an output is such that agreement proves little."""
    if reference.size < 2 or reference.dtype.kind in "OUS":
        return ""
    if _is_inexact(reference.dtype) and np.isnan(reference).all():
        return "proves little: the original gives only NaN"
    flat = reference.reshape(-1)
    return "proves little: all elements are the same" if bool((flat == flat[0]).all()) else ""


def _is_inexact(dtype: np.dtype[Any]) -> bool:
    # ml_dtypes' classes are of kind "V" (or "f") and know no arithmetic with float64; names tell.
    return dtype.kind in "fc" or dtype.name.startswith(("bfloat16", "float"))


def _exact(name: str, reference: np.ndarray, result: np.ndarray, _: Tolerance) -> OutputCheck:
    differ = np.asarray(reference != result)
    count = int(np.count_nonzero(differ))
    figures = (0.0, 0.0)
    if count and reference.dtype.kind in "iub":
        before, after = reference[differ].astype(np.float64), result[differ].astype(np.float64)
        error = np.abs(before - after)
        figures = (float(error.max()), float((error / np.maximum(np.abs(before), 1.0)).max()))
    note = f"{count} of {reference.size} elements differ; these must be equal" if count else ""
    return OutputCheck(name, _dtype_name(reference), reference.shape, *figures, 0.0, ok=count == 0, note=note)


def _dtype_name(array: np.ndarray) -> str:
    return "string" if array.dtype.kind in "OUS" else array.dtype.name


def _floats(name: str, reference: np.ndarray, result: np.ndarray, tolerance: Tolerance) -> OutputCheck:
    wide = np.complex128 if reference.dtype.kind == "c" else np.float64
    rtol, atol = tolerance.of(reference.dtype)
    scale = scale_of(reference.astype(wide) if reference.dtype.kind not in "fc" else reference)
    scales = scale.reshape(-1) if isinstance(scale, np.ndarray) else scale
    worst, lost = _Worst(), 0
    before, after = reference.reshape(-1), result.reshape(-1)
    for start in range(0, before.size, _CHUNK):
        part = slice(start, start + _CHUNK)
        part_scale = scales[part] if isinstance(scales, np.ndarray) else scales
        lost += _see_chunk(worst, before[part].astype(wide), after[part].astype(wide), part_scale, rtol, atol)
    note = f"NaN or infinity in other places than in the original ({lost} elements)" if lost else ""
    max_abs, max_rel, bound = (min(figure, _LARGEST) for figure in (worst.max_abs, worst.max_rel, worst.tolerance))
    ok = worst.ratio <= 1 and not lost
    return OutputCheck(name, reference.dtype.name, reference.shape, max_abs, max_rel, bound, ok, note)


def _see_chunk(
    worst: _Worst, before: np.ndarray, after: np.ndarray, scale: float | np.ndarray, rtol: float, atol: float
) -> int:
    """Take in a piece; return how many elements are not finite in one but not, or otherwise, in the other."""
    finite = np.isfinite(before) & np.isfinite(after)
    same = finite | (before == after) | (np.isnan(before) & np.isnan(after))
    if not finite.all():
        before, after = before[finite], after[finite]
        scale = scale[finite] if isinstance(scale, np.ndarray) else scale
    with np.errstate(over="ignore"):
        worst.see(np.abs(before - after), before, scale, rtol, atol)
    return int(np.count_nonzero(~same))


def _collections(name: str, reference: dict[Any, Value], result: dict[Any, Value], tolerance: Tolerance) -> OutputCheck:
    if list(reference) != list(result):
        return failed(name, f"{len(result)} elements where the original gives {len(reference)}, or other keys")
    checks = [compare(f"{name}[{key}]", reference[key], result[key], tolerance) for key in reference]
    empty = OutputCheck(name, "empty", (), 0.0, 0.0, 0.0, ok=True)
    worst = max(checks, key=lambda check: (not check.ok, check.max_rel), default=empty)
    note = worst.note if worst.ok else f"element {worst.name}: {worst.note}".rstrip(": ")
    return replace(worst, name=name, note=note)
