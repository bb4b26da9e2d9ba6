"""The few lines that put the floors together: load, rewrite, validate, save, report."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from onnx import ModelProto

from onnxfuse.attempt import Attempts, Mended
from onnxfuse.errors import OutputError, UsageError, ValidationError
from onnxfuse.match.builtin import builtin_library
from onnxfuse.match.pattern import Pattern, compile_patterns
from onnxfuse.model.file import ModelFile, from_proto, load
from onnxfuse.model.save import copy, save
from onnxfuse.progress import Progress, silent
from onnxfuse.report.record import ModelRecord, Report
from onnxfuse.report.survey import survey_ops
from onnxfuse.rewrite.steps import STEPS
from onnxfuse.rewrite.trace import Fusion
from onnxfuse.rulebook.select import selected

if TYPE_CHECKING:
    from onnxfuse.validate import Validation, Validator

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
    verify_rules: bool = True,
    opset: str | int = "auto",
    provider: str = "auto",
    rtol: float | None = None,
    atol: float | None = None,
    seed: int = 0,
    on_mismatch: str = "undo",
    dry_run: bool = False,
    progress: Progress = silent,
) -> Result:
    """Fuse what the rules match in a model, check the result against the original, and write it to `output` if given.

    `model`: a path, or a ModelProto, which is never changed.  `select` and `ignore` are names or globs of rules;
    `rules` are further rule files or folders; with `verify_rules` they are proven before they are applied, which takes
    seconds, once: see `check_rules`.  `opset`: "auto" raises the model to what the fusions found need, "keep"
    never does, a number sets it.  `provider`: "auto", "cuda" or "cpu".  `rtol` and `atol` replace the tolerances that
    each element type has.  `on_mismatch`: where the result differs by more, "undo" leaves out the fusions at fault and
    keeps the others, "fail" names them.  `dry_run`: write nothing.

    Raises InputError, RuleError, UsageError, OpsetError, ProviderError or OutputError for what cannot be used;
    EndlessRulesError if the rules never come to an end on this model; OriginalFailsError if onnxruntime cannot run the
    original; ValidationError, with the report as its `report`, if the result differs from the original by more than the
    tolerance and that is not undone.  Nothing is written then.
    """
    progress("loading", 0, 0)
    original = from_proto(model) if isinstance(model, ModelProto) else load(Path(model))
    if rules and verify_rules:
        check_rules(rules, select=select, ignore=ignore, progress=progress)
    steps, patterns = _choose(original.proto, rules, select, ignore)
    target = None if output is None else _check_target(original, Path(output), in_place)

    validator = None
    if validate:
        from onnxfuse.validate import Validator  # takes a while to import

        validator = Validator(original, provider=provider, rtol=rtol, atol=atol, seed=seed, progress=progress)
    attempts = Attempts(original, patterns, steps, validator.validate if validator else None, progress)
    best = _best(attempts, validator, opset, on_mismatch)
    written = None if dry_run or not best.attempt.good else target
    result, changed = best.attempt.result, best.attempt.result is not original
    if written is not None:
        progress("writing", 0, 0)
        _write(result, changed, written)
    report = _report(original, best, written)
    if not best.attempt.good:
        raise _mismatch(report)
    return Result(report, result, changed, written)


def check_rules(
    rules: Sequence[PathLike],
    *,
    select: Sequence[str] = (),
    ignore: Sequence[str] = (),
    jobs: int | None = 1,
    progress: Progress = silent,
) -> None:
    """Prove the rules of files or folders, those that `select` and `ignore` leave, as `onnxfuse rules verify` does.

    What was proven is remembered in the user's cache folder, by the content of the rules and the versions of what
    proves them.  `jobs`: processes to use; None: one for each core, 1: none but this one.

    Raises RuleError for a rule that cannot be read, or that fails, with the first case in which it does; UsageError for
    a name that no rule has.
    """
    from onnxfuse.rulebook.load import load_rulebook
    from onnxfuse.trust import require_proven

    book = load_rulebook([Path(path) for path in rules], present=())
    chosen = selected([*STEPS, *book.unread, *(rule.name for rule in book.rules)], select, ignore)
    require_proven(book, chosen, jobs=jobs, progress=progress)


def _best(attempts: Attempts, validator: Validator | None, opset: str | int, on_mismatch: str) -> Mended:
    """Rewrite a model; where the result is no good, leave out what is at fault, or only name it."""
    first = attempts.make(opset)
    if first.good or validator is None:
        return Mended(first)
    from onnxfuse.undo import accused, mend

    if on_mismatch == "undo":
        return mend(attempts, validator, first, opset)
    return Mended(replace(first, notes=(*first.notes, *accused(validator, first))))


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
    names = selected([*STEPS, *sorted(known)], select, ignore)
    chosen = tuple(pattern for pattern in patterns if pattern.rule.name in names)
    return names & frozenset(STEPS), chosen


def _check_target(original: ModelFile, output: Path, in_place: bool) -> Path:
    if original.path is not None and not in_place and output.exists() and output.samefile(original.path):
        raise UsageError(f"{output} is the model itself: give another output, or say in-place")
    if not output.parent.is_dir():
        raise OutputError(f"{output}: there is no folder {output.parent}; create it or give another output")
    return output


def _write(model: ModelFile, changed: bool, output: Path) -> None:
    """Write a model; a file that did not change is copied byte for byte."""
    (copy if model.path is not None and not changed else save)(model, output)


def _report(original: ModelFile, best: Mended, output: Path | None) -> Report:
    attempt, changed = best.attempt, best.attempt.result is not original
    record = ModelRecord.of(
        original.proto,
        attempt.result.proto,
        path=original.path,
        sha256=original.sha256,
        output=output,
        bytes_before=original.size,
        bytes_after=attempt.result.size if changed else original.size,
    )
    return Report.of(
        record,
        fusions=attempt.trace.fusions,
        near_misses=attempt.trace.near_misses,
        undone=best.undone,
        steps=attempt.notes,
        validation=attempt.validation,
        changed=changed,
    )


def _mismatch(report: Report) -> ValidationError:
    from onnxfuse.undo import fault_of

    error = ValidationError(f"{fault_of(report.validation)}; nothing was written")
    error.report = report  # type: ignore[attr-defined]
    return error
