"""The few lines that put the floors together: load, rewrite, validate, save, report."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from onnx import ModelProto

from onnxfuse.errors import OpsetError, OutputError, UsageError, ValidationError
from onnxfuse.match.pattern import Pattern, compile_patterns
from onnxfuse.model.editable import EditableModel
from onnxfuse.model.file import ModelFile, from_proto, load
from onnxfuse.model.patch import patched, with_weights_apart
from onnxfuse.model.save import copy, save
from onnxfuse.progress import Progress, silent
from onnxfuse.report.record import ModelRecord, Report
from onnxfuse.report.survey import default_opset, survey_ops
from onnxfuse.rewrite import cleanup
from onnxfuse.rewrite.engine import HigherOpset, rewrite
from onnxfuse.rewrite.trace import Fusion, Trace
from onnxfuse.rulebook.load import load_rulebook
from onnxfuse.rulebook.rule import Rulebook
from onnxfuse.rulebook.select import selected
from onnxfuse.targets import PORTABLE

if TYPE_CHECKING:
    from onnxfuse.validate import OutputCheck, Validation

PathLike: TypeAlias = str | os.PathLike[str]


@dataclass(frozen=True)
class Result:
    """What `optimize` made: the record of it, and the model itself, built when asked for."""

    report: Report
    file: ModelFile
    changed: bool
    output: Path | None

    @property
    def fusions(self) -> tuple[Fusion, ...]:
        """The applications of rules and clean-up steps, in order."""
        return self.report.fusions

    @property
    def validation(self) -> Validation | None:
        """How the result compares with the original; None if it was not run."""
        return self.report.validation

    @cached_property
    def model(self) -> ModelProto:
        """The whole optimized model with all weights in memory."""
        return self.file.materialize()

    def save(self, path: PathLike) -> None:
        """Write the model to `path`, streaming the weights.

        Raises OutputError if it cannot be written.
        """
        _write(self.file, self.changed, Path(path))


def optimize(
    model: PathLike | ModelProto,
    *,
    output: PathLike | None = None,
    in_place: bool = False,
    validate: bool = True,
    select: Sequence[str] = (),
    ignore: Sequence[str] = (),
    rules: Sequence[PathLike] = (),
    opset: str | int = "auto",
    provider: str = "auto",
    rtol: float | None = None,
    atol: float | None = None,
    seed: int = 0,
    dry_run: bool = False,
    progress: Progress = silent,
) -> Result:
    """Fuse what the rules match in a model, check the result against the original, and write it to `output` if given.

    `model`: a path, or a ModelProto, which is never changed.  `select` and `ignore` are names or globs of rules;
    `rules` are further rule files or folders.  `opset`: "auto" raises the model to what the fusions found need, "keep"
    never does, a number sets it.  `provider`: "auto", "cuda" or "cpu".  `rtol` and `atol` replace the tolerances that
    each element type has.  `dry_run`: write nothing.

    Raises InputError, RuleError, UsageError, OpsetError, ProviderError or OutputError for what cannot be used;
    OriginalFailsError if onnxruntime cannot run the original; ValidationError, with the report as its `report`, if the
    result differs from the original by more than the tolerance.  Nothing is written then.
    """
    progress("loading", 0, 0)
    original = from_proto(model) if isinstance(model, ModelProto) else load(Path(model))
    book = load_rulebook([Path(path) for path in rules], present=survey_ops(original.proto))
    steps, patterns = _choose(book, select, ignore)
    target = None if output is None else _check_target(original, Path(output), in_place)
    work = _Work(patterns, steps, progress)
    with _collector_paused():
        result, changed = work.run(original, opset)
    validation = None
    if validate:
        from onnxfuse.validate import validate as compare  # imports onnxruntime

        validation = compare(original, result, provider=provider, rtol=rtol, atol=atol, seed=seed, progress=progress)
    written = target if validation is None or validation.ok else None
    if written is not None and not dry_run:
        progress("writing", 0, 0)
        _write(result, changed, written)
    record = _record(original, result, changed, None if dry_run else written)
    report = Report.of(
        record,
        fusions=work.trace.fusions,
        near_misses=work.trace.near_misses,
        steps=work.notes,
        validation=validation,
        changed=changed,
    )
    if validation is not None and not validation.ok:
        raise _mismatch(validation, report)
    return Result(report, result, changed, None if dry_run else written)


@contextmanager
def _collector_paused() -> Iterator[None]:
    """Pause Python's cycle collector: it would look at the whole growing graph again and again, in quadratic time."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


class _Work:
    """Rewrites one model, at the opset that is asked for or that its fusions need."""

    def __init__(self, patterns: tuple[Pattern, ...], steps: frozenset[str], progress: Progress) -> None:
        self._patterns, self._steps, self._progress = patterns, steps, progress
        self._ceiling = 0
        self.trace = Trace()
        self.notes: list[str] = []

    def run(self, original: ModelFile, opset: str | int) -> tuple[ModelFile, bool]:
        """Return the rewritten model, and whether it differs from the original."""
        self._ceiling = PORTABLE.max_opset if opset == "auto" else 0
        wanted = opset if isinstance(opset, int) else default_opset(original.proto)
        start = original if wanted == default_opset(original.proto) else _raised(original, int(wanted or 0))
        editable, start = self._rewrite(original, start)
        result = patched(editable) if self.trace.fusions else start
        self.notes += _version_changes(original.proto, result.proto)
        return result, result is not original

    def _rewrite(self, original: ModelFile, start: ModelFile) -> tuple[EditableModel, ModelFile]:
        """Rewrite a model, from its start again at a higher opset as often as a fusion needs one."""
        editable = None
        while True:
            editable = EditableModel(start, editable)
            try:
                self.trace = rewrite(
                    editable, self._patterns, steps=self._steps, max_opset=self._ceiling, progress=self._progress
                )
            except HigherOpset as need:
                start = self._raise(original, start, need.opset)
            else:
                return editable, start

    def _raise(self, original: ModelFile, start: ModelFile, opset: int) -> ModelFile:
        """Return the original at a higher opset; where that cannot be, note why, ask no more, and return `start`."""
        try:
            return _raised(original, opset)
        except OpsetError as error:
            self.notes.append(f"the opset is kept below {opset}, which fusions need: {error}")
            self._ceiling = opset - 1
            return start


def _version_changes(before: ModelProto, after: ModelProto) -> Iterator[str]:
    """Yield sentences on what changed in the header of the model."""
    if default_opset(before) != default_opset(after):
        yield f"opset {default_opset(before)} -> {default_opset(after)}"
    if before.ir_version != after.ir_version:
        unlisted = len(before.graph.input) - len(after.graph.input)
        weights = f": {unlisted} weights are no longer listed as graph inputs" if unlisted else ""
        yield f"IR version {before.ir_version} -> {after.ir_version}{weights}"


def _raised(original: ModelFile, opset: int) -> ModelFile:
    from onnxfuse.model.opset import raise_opset  # most models need no raising

    return raise_opset(with_weights_apart(original), opset)


def _choose(book: Rulebook, select: Sequence[str], ignore: Sequence[str]) -> tuple[frozenset[str], tuple[Pattern, ...]]:
    """Return the clean-up steps and the patterns that are to be used."""
    names = selected([*cleanup.STEPS, *(rule.name for rule in book.rules), *book.unread], select, ignore)
    chosen = Rulebook(tuple(rule for rule in book.rules if rule.name in names), book.forms)
    return names & frozenset(cleanup.STEPS), compile_patterns(chosen)


def _check_target(original: ModelFile, output: Path, in_place: bool) -> Path:
    if original.path is not None and not in_place and output.exists() and output.samefile(original.path):
        raise UsageError(f"{output} is the model itself: give another output, or say in-place")
    if not output.parent.is_dir():
        raise OutputError(f"{output}: there is no folder {output.parent}; create it or give another output")
    return output


def _write(model: ModelFile, changed: bool, output: Path) -> None:
    """Write a model; a file that did not change is copied byte for byte."""
    (copy if model.path is not None and not changed else save)(model, output)


def _record(original: ModelFile, result: ModelFile, changed: bool, output: Path | None) -> ModelRecord:
    return ModelRecord.of(
        original.proto,
        result.proto,
        path=original.path,
        sha256=original.sha256,
        output=output,
        bytes_before=original.size,
        bytes_after=result.size if changed else original.size,
    )


def _mismatch(validation: Validation, report: Report) -> ValidationError:
    worst = max((check for _, check in validation.failures), key=_excess)
    reason = worst.note or f"differs by {worst.max_abs:.3g}, the tolerance is {worst.tolerance:.3g}"
    error = ValidationError(f"output '{worst.name}' of the result {reason}; nothing was written")
    error.report = report  # type: ignore[attr-defined]
    return error


def _excess(check: OutputCheck) -> float:
    return check.max_abs / check.tolerance if check.tolerance else check.max_abs
