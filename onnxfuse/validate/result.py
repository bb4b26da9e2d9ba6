"""What a validation found: per run and per output how far the result is from the original."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from onnxfuse.rewrite.trace import Fusion


@dataclass(frozen=True)
class OutputCheck:
    """One output of one run, result against reference; all figures are finite.

    ``max_abs`` is the largest absolute difference, ``max_rel`` the largest difference relative to the element or to
    the scale of its surroundings (see `compare`), ``tolerance`` what was allowed: at the element that breaks its bound
    worst or, where none does, at the element of ``max_abs``. ``shape`` is the reference's; () for what is no tensor.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    max_abs: float
    max_rel: float
    tolerance: float
    ok: bool
    note: str = ""


@dataclass(frozen=True)
class Run:
    """Both models on one drawn set of inputs; ``ort_optimizations`` is "off" or "all"."""

    ort_optimizations: str
    seed: int
    shapes: Mapping[str, tuple[int, ...]]
    outputs: tuple[OutputCheck, ...]

    @property
    def ok(self) -> bool:
        """Whether every output agrees."""
        return all(check.ok for check in self.outputs)


@dataclass(frozen=True)
class Validation:
    """All runs on one execution provider; ``note`` says what the caller should know of how it was done."""

    provider: str
    note: str
    runs: tuple[Run, ...]

    @property
    def ok(self) -> bool:
        """Whether every output of every run agrees."""
        return all(run.ok for run in self.runs)

    @property
    def failures(self) -> tuple[tuple[Run, OutputCheck], ...]:
        """The outputs that do not agree, each with its run."""
        return tuple((run, check) for run in self.runs for check in run.outputs if not check.ok)


@dataclass(frozen=True)
class Undone:
    """A fusion that was taken back, and the first value that was wrong because of it.

    ``check`` is None where that value cannot be shown: in a nested graph, or where the model did not run at all.
    """

    fusion: Fusion
    check: OutputCheck | None
