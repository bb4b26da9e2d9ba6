"""Comparing what models give for the same data, with bounds that know how ill-conditioned the data is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from onnx import ModelProto, TensorProto, helper

from onnxfuse.prove.running.runtime import Runtime, serialized
from onnxfuse.prove.sides.draw import KINDS, is_float, nudged, special

Array = NDArray[Any]
Feeds = Mapping[str, Array]

# Relative and absolute tolerance by element type.
TOLERANCES = {
    np.dtype(np.float32).name: (1e-4, 1e-5),
    np.dtype(np.float16).name: (2e-2, 1e-2),
    np.dtype(np.float64).name: (1e-9, 1e-10),
    np.dtype(helper.tensor_dtype_to_np_dtype(TensorProto.BFLOAT16)).name: (1e-1, 5e-2),
}

# The noise of one rounding of the inputs is a sample; both sides round in many more places.
_NOISE_FACTOR = 16.0


@dataclass(frozen=True)
class Trial:
    """One set of data: its kind, the data, and the same moved by less than its last bit."""

    kind: str
    feeds: Feeds
    nudged: Feeds


@dataclass(frozen=True)
class Reference:
    """An original, serialized, and what it gives in each trial."""

    model: bytes
    outputs: tuple[tuple[Array, ...], ...]


class Judge:
    """Runs models on one set of trials; what equal models give is remembered."""

    def __init__(
        self, arrays: Feeds, types: Mapping[str, int], ranged: Sequence[str], seed: int, kinds: Sequence[str] = KINDS
    ) -> None:
        generator = np.random.default_rng(seed)
        self._runtime = Runtime()
        self._results: dict[tuple[bytes, bool], tuple[tuple[Array, ...], ...]] = {}
        self._trials: list[Trial] = []
        for kind in kinds:
            feeds = {n: a if n in ranged else special(kind, a, types[n]) for n, a in arrays.items()}
            if kind == kinds[0] or any(not np.array_equal(feeds[name], arrays[name]) for name in arrays):
                moved = {name: nudged(array, generator) for name, array in feeds.items()}
                self._trials.append(Trial(kind, feeds, moved))

    def reference(self, model: ModelProto) -> Reference:
        """Run the original; raises CannotRun."""
        data = serialized(model)
        return Reference(data, self._outputs(data, nudged=False))

    def differences(self, reference: Reference, model: ModelProto, exact: bool = False) -> tuple[float, str]:
        """Run another model and return the worst difference, as a part of what is allowed, and what is wrong with it.

        The text is empty if nothing is.  Raises CannotRun.
        """
        results = self._outputs(serialized(model), nudged=False)
        worst, message = _compare_all(self._trials, reference.outputs, results, None, exact)
        if message and not exact:
            worst, message = _compare_all(self._trials, reference.outputs, results, self._noise(reference), exact)
        return worst, message

    def _noise(self, reference: Reference) -> tuple[tuple[Array, ...], ...]:
        """Return how far the original's results move when the inputs move by their last bit."""
        moved = self._outputs(reference.model, nudged=True)
        return tuple(tuple(map(_distance, a, b)) for a, b in zip(reference.outputs, moved, strict=True))

    def _outputs(self, data: bytes, nudged: bool) -> tuple[tuple[Array, ...], ...]:
        if (data, nudged) not in self._results:
            feeds = [trial.nudged if nudged else trial.feeds for trial in self._trials]
            self._results[data, nudged] = tuple(tuple(self._runtime.run(data, feed)) for feed in feeds)
        return self._results[data, nudged]


def _compare_all(
    trials: Sequence[Trial],
    expected: Sequence[Sequence[Array]],
    actual: Sequence[Sequence[Array]],
    noise: Sequence[Sequence[Array]] | None,
    exact: bool,
) -> tuple[float, str]:
    worst, message = 0.0, ""
    for index, trial in enumerate(trials):
        for number, (want, have) in enumerate(zip(expected[index], actual[index], strict=True)):
            slack = np.zeros(()) if noise is None else noise[index][number]
            part, reason = _compare(want, have, slack, exact)
            worst = max(worst, part)
            if reason and not message:
                message = f"output {number + 1}, {trial.kind} data: {reason}"
    return worst, message


def _distance(first: Array, second: Array) -> Array:
    """Return how far two results are apart, the largest in each row; 0 where they are not finite."""
    if not is_float(first) or first.shape != second.shape or not first.size:
        return np.zeros(first.shape)
    with np.errstate(all="ignore"):
        apart = np.nan_to_num(np.abs(first.astype(np.float64) - second.astype(np.float64)), nan=0, posinf=0)
    return apart.max(axis=-1, keepdims=True) if apart.ndim else apart


def _compare(want: Array, have: Array, noise: Array, exact: bool) -> tuple[float, str]:
    """Return the worst difference as a part of what is allowed, and a sentence if that is over 1."""
    if want.shape != have.shape:
        return float("inf"), f"shape {list(have.shape)} instead of {list(want.shape)}"
    if want.dtype != have.dtype:
        return float("inf"), f"{have.dtype} instead of {want.dtype}"
    if exact or not is_float(want):
        same = want.tobytes() == have.tobytes()
        return (0.0, "") if same else (float("inf"), "the values are not exactly the same")
    return _compare_floats(want, have, noise)


def _compare_floats(want: Array, have: Array, noise: Array) -> tuple[float, str]:
    relative, absolute = TOLERANCES[want.dtype.name]
    first, second = want.astype(np.float64), have.astype(np.float64)
    finite = np.isfinite(first)
    # Where a step of the original overflows, the fused operator may still give a number; never the other way round.
    if not np.isfinite(second[finite]).all():
        return float("inf"), "not finite where the original is"
    largest = float(np.abs(first[finite]).max(initial=0.0))
    allowed = np.broadcast_to(absolute + relative * largest + _NOISE_FACTOR * noise, first.shape)
    apart = np.abs(np.where(finite, first - np.where(finite, second, 0), 0.0))
    if not apart.size:
        return 0.0, ""
    at = np.unravel_index(int(np.argmax(apart / allowed)), apart.shape)
    part = float(apart[at] / allowed[at])
    if part <= 1:
        return part, ""
    return part, f"{second[at]:.6g} instead of {first[at]:.6g}, {float(allowed[at]):.2g} apart is allowed"
