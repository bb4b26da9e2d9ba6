"""The few lines that put the floors together: load, rewrite, validate, save, report."""

from __future__ import annotations

import gc
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from onnx import ModelProto

from onnxfuse.errors import OpsetError, OutputError, UsageError, ValidationError
from onnxfuse.match.builtin import builtin_library
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
    EndlessRulesError if the rules never come to an end on this model; OriginalFailsError if onnxruntime cannot run the
    original; ValidationError, with the report as its `report`, if the result differs from the original by more than the
    tolerance.  Nothing is written then.
    """
    progress("loading", 0, 0)
    original = from_proto(model) if isinstance(model, ModelProto) else load(Path(model))
    steps, patterns = _choose(original.proto, rules, select, ignore)
    target = None if output is None else _check_target(original, Path(output), in_place)

    def judge(result: ModelFile) -> Validation | None:
        if not validate:
            return None
        from onnxfuse.validate import validate as compare  # imports onnxruntime

        return compare(original, result, provider=provider, rtol=rtol, atol=atol, seed=seed, progress=progress)

    work = _best(original, patterns, steps, opset, judge, progress)
    written = None if dry_run or not work.good else target
    if written is not None:
        progress("writing", 0, 0)
        _write(work.result, work.changed, written)
    report = _report(original, work, written)
    if not work.good:
        raise _mismatch(report)
    return Result(report, work.result, work.changed, written)


def _best(
    original: ModelFile,
    patterns: tuple[Pattern, ...],
    steps: frozenset[str],
    opset: str | int,
    judge: Callable[[ModelFile], Validation | None],
    progress: Progress,
) -> _Work:
    """Rewrite a model and judge the result; if it is no good at a raised opset, once more at the model's own.

    Runtimes lack kernels of some operators at newer opsets, which nobody knows before the result is run.
    """
    work = _Work(original, patterns, steps, progress)
    work.run(opset, judge)
    if work.good or opset != "auto" or default_opset(work.result.proto) == default_opset(original.proto):
        return work
    kept = _Work(original, patterns, steps, progress)
    kept.notes.append(f"the opset is kept: at {default_opset(work.result.proto)} {_fault(work.validation)}")
    kept.run("keep", judge)
    return kept if kept.good else work


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
    """Rewrites one model, at the opset that is asked for or that its fusions need, and has the result judged."""

    def __init__(
        self, original: ModelFile, patterns: tuple[Pattern, ...], steps: frozenset[str], progress: Progress
    ) -> None:
        self._original, self._patterns, self._steps, self._progress = original, patterns, steps, progress
        self._ceiling = 0
        self.result = original
        self.trace = Trace()
        self.notes: list[str] = []
        self.validation: Validation | None = None

    @property
    def changed(self) -> bool:
        """Whether the result differs from the original."""
        return self.result is not self._original

    @property
    def good(self) -> bool:
        """Whether nothing speaks against the result."""
        return self.validation is None or self.validation.ok

    def run(self, opset: str | int, judge: Callable[[ModelFile], Validation | None]) -> None:
        """Rewrite the model and judge the result."""
        self._ceiling = PORTABLE.max_opset if opset == "auto" else 0
        wanted = opset if isinstance(opset, int) else default_opset(self._original.proto)
        with _collector_paused():
            start = self._original
            if wanted is not None and wanted != default_opset(start.proto):
                start = _raised(start, wanted)
            editable, start = self._rewrite(self._original, start)
            self.result = patched(editable) if self.trace.fusions else start
        self.notes += _version_changes(self._original.proto, self.result.proto)
        self.validation = judge(self.result)

    def _rewrite(self, original: ModelFile, start: ModelFile) -> tuple[EditableModel, ModelFile]:
        """Rewrite a model, from its start again at a higher opset as often as a fusion needs one."""
        editable = None
        while True:
            editable = EditableModel(start, editable)
            try:
                self.trace = rewrite(
                    editable,
                    self._patterns,
                    steps=self._steps,
                    max_opset=self._ceiling,
                    ask_first=start is original,
                    progress=self._progress,
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


def _choose(
    model: ModelProto, rules: Sequence[PathLike], select: Sequence[str], ignore: Sequence[str]
) -> tuple[frozenset[str], tuple[Pattern, ...]]:
    """Return the clean-up steps and the patterns that are to be used on a model."""
    present = survey_ops(model)
    if rules:
        from onnxfuse.rulebook.load import load_rulebook

        book = load_rulebook([Path(path) for path in rules], present=present)
        patterns, known = compile_patterns(book), {*book.unread, *(rule.name for rule in book.rules)}
    else:
        library = builtin_library()
        patterns, known = library.for_model(present), set(library.operators)
    names = selected([*cleanup.STEPS, *sorted(known)], select, ignore)
    chosen = tuple(pattern for pattern in patterns if pattern.rule.name in names)
    return names & frozenset(cleanup.STEPS), chosen


def _check_target(original: ModelFile, output: Path, in_place: bool) -> Path:
    if original.path is not None and not in_place and output.exists() and output.samefile(original.path):
        raise UsageError(f"{output} is the model itself: give another output, or say in-place")
    if not output.parent.is_dir():
        raise OutputError(f"{output}: there is no folder {output.parent}; create it or give another output")
    return output


def _write(model: ModelFile, changed: bool, output: Path) -> None:
    """Write a model; a file that did not change is copied byte for byte."""
    (copy if model.path is not None and not changed else save)(model, output)


def _report(original: ModelFile, work: _Work, output: Path | None) -> Report:
    record = ModelRecord.of(
        original.proto,
        work.result.proto,
        path=original.path,
        sha256=original.sha256,
        output=output,
        bytes_before=original.size,
        bytes_after=work.result.size if work.changed else original.size,
    )
    return Report.of(
        record,
        fusions=work.trace.fusions,
        near_misses=work.trace.near_misses,
        steps=work.notes,
        validation=work.validation,
        changed=work.changed,
    )


def _mismatch(report: Report) -> ValidationError:
    error = ValidationError(f"{_fault(report.validation)}; nothing was written")
    error.report = report  # type: ignore[attr-defined]
    return error


def _fault(validation: Validation | None) -> str:
    """Return what is wrong with the worst output of a result that is no good."""
    assert validation is not None
    worst = max((check for _, check in validation.failures), key=_excess)
    if worst.note:
        return f"output '{worst.name}' of the result: {worst.note}"
    return f"output '{worst.name}' of the result differs by {worst.max_abs:.3g}, the tolerance is {worst.tolerance:.3g}"


def _excess(check: OutputCheck) -> float:
    return check.max_abs / check.tolerance if check.tolerance else check.max_abs
