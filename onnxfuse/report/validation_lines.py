"""The validation of a report as lines of text."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from onnxfuse.report.wording import Style, counted, number, printable, quoted

if TYPE_CHECKING:
    from onnxfuse.validate.result import OutputCheck, Run, Validation

_LISTED_FAILURES = 5


def validation_lines(validation: Validation | None, every: bool, style: Style) -> list[str]:
    """Where it ran, the worst output, and what failed; with ``every`` each output of each run."""
    if validation is None:
        return []
    lines = [_headline(validation, style)]
    if every:
        lines.extend(line for run in validation.runs for line in _run_lines(run, style))
        return lines
    failures = validation.failures
    lines.extend(_check_line(run, check, style) for run, check in failures[:_LISTED_FAILURES])
    if len(failures) > _LISTED_FAILURES:
        more = counted(len(failures) - _LISTED_FAILURES, "more mismatch", "more mismatches")
        lines.append(f"! {more} (-v lists them)")
    worst = _worst(validation)
    if not failures and worst is not None:
        lines.append(f"  worst output {measure(worst)}")
    return lines


def failure_phrase(validation: Validation) -> list[str]:
    """What a verdict says of a mismatch: the worst output, its error and its tolerance."""
    worst = _worst(validation)
    return [] if worst is None else [f"output {measure(worst)}"]


def _headline(validation: Validation, style: Style) -> str:
    mark = style("+", "good") if validation.ok else style("!", "bad")
    counts: dict[str, int] = {}
    for run in validation.runs:
        counts[run.ort_optimizations] = counts.get(run.ort_optimizations, 0) + 1
    runs = ", ".join(f"{counted(count, 'run')} with optimizations {level}" for level, count in counts.items())
    note = f" ({printable(validation.note)})" if validation.note else ""
    done = "validated" if validation.ok else "failed validation"
    return f"{mark} {done} on {validation.provider}{note}: {runs or 'no runs'}"


def _run_lines(run: Run, style: Style) -> list[str]:
    shapes = ", ".join(f"{printable(name)} {_shape(shape)}" for name, shape in run.shapes.items())
    head = f"  optimizations {run.ort_optimizations}, seed {run.seed}{', ' if shapes else ''}{shapes}"
    return [head, *(f"  {_output_line(check, style)}" for check in run.outputs)]


def _output_line(check: OutputCheck, style: Style) -> str:
    mark = style("+", "good") if check.ok else style("!", "bad")
    return f"{mark} {measure(check)}, max rel {number(check.max_rel)}"


def _check_line(run: Run, check: OutputCheck, style: Style) -> str:
    return f"{_output_line(check, style)}  (optimizations {run.ort_optimizations}, seed {run.seed})"


def measure(check: OutputCheck) -> str:
    """One value: its type and shape, how far it is off, and what was allowed."""
    note = f" ({printable(check.note)})" if check.note else ""
    return (
        f"{quoted(check.name)} {check.dtype}{_shape(check.shape)}: max abs {number(check.max_abs)}"
        f"{_times(check)} tolerance {number(check.tolerance)}{note}"
    )


def _times(check: OutputCheck) -> str:
    """How much of the tolerance was used, where there is such a figure."""
    ratio = _ratio(check)
    return f" = {number(ratio)} x" if math.isfinite(ratio) else ","


def _ratio(check: OutputCheck) -> float:
    if check.tolerance > 0 and math.isfinite(check.max_abs):
        return check.max_abs / check.tolerance
    return 0.0 if check.max_abs == 0 else math.inf


def _worst(validation: Validation) -> OutputCheck | None:
    checks = [check for run in validation.runs for check in run.outputs]
    return max(checks, key=lambda check: (not check.ok, _ratio(check)), default=None)


def _shape(shape: tuple[int, ...]) -> str:
    return "[" + ", ".join(str(size) for size in shape) + "]"
