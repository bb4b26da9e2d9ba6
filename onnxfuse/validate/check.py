"""The validation itself: original against result, onnxruntime's own optimizations off and then on.

The reference of both levels is the original with onnxruntime's optimizations off: what the model says, untouched by
anyone. Off, the comparison judges our rewrite alone. On, it judges what deployment will see of the result, and only
where that differs is the original run with the optimizations on as well: what they do to the original too, or worse,
is not held against the result.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property

from onnxfuse.model.file import ModelFile
from onnxfuse.progress import Progress, silent
from onnxfuse.validate import providers
from onnxfuse.validate.compare import compare, failed, structure_only
from onnxfuse.validate.localise import first_partings
from onnxfuse.validate.reference import PHASE, Reference, make_reference, run_by_name
from onnxfuse.validate.result import OutputCheck, Run, Validation
from onnxfuse.validate.search import Case
from onnxfuse.validate.sessions import Refused, Value, open_session
from onnxfuse.validate.tolerance import Tolerance, coarsest_precision

# How much further than the original itself a result may be moved by onnxruntime's optimizations.
_NOISE_FACTOR = 4.0


def validate(
    original: ModelFile,
    result: ModelFile,
    *,
    provider: str = "auto",
    rtol: float | None = None,
    atol: float | None = None,
    seed: int = 0,
    progress: Progress | None = None,
) -> Validation:
    """Run both models on the same inputs and compare every output; see `Validator`."""
    validator = Validator(original, provider=provider, rtol=rtol, atol=atol, seed=seed, progress=progress)
    return validator.validate(result)


class Validator:
    """Compares any number of results with one original, which is run once.

    At least two draws, and two sizes of every open dimension that takes two; each with onnxruntime's own optimizations
    off and on. ``provider`` is "auto", "cuda" or "cpu"; ``rtol`` and ``atol`` override the defaults of `tolerance`.
    Raises OriginalFailsError when onnxruntime cannot run the original, ProviderError for "cuda" without CUDA,
    InputError for a model in memory of over 2 GB.
    """

    def __init__(
        self,
        original: ModelFile,
        *,
        provider: str = "auto",
        rtol: float | None = None,
        atol: float | None = None,
        seed: int = 0,
        progress: Progress | None = None,
    ) -> None:
        self._original, self._seed, self._tell = original, seed, progress or silent
        self._may_fall_back = provider == "auto"
        self._provider, self._note = providers.choose(provider)
        self._tolerance = Tolerance(coarsest_precision(original.proto), rtol, atol)

    @cached_property
    def reference(self) -> Reference:
        """What the original makes of drawn inputs."""
        return make_reference(
            self._original, self._provider, self._tolerance, self._seed, self._tell, fall_back=self._may_fall_back
        )

    def validate(self, result: ModelFile) -> Validation:
        """Run a result on the inputs of the reference and compare every output."""
        judge = _Judge(self._original, result, self.reference, self._tolerance)
        total = 2 * len(self.reference.cases)
        self._tell(PHASE, 0, total)
        runs = [*judge.level_off()]
        self._tell(PHASE, len(runs), total)
        runs.extend(judge.level_all())
        self._tell(PHASE, total, total)
        note = "; ".join(filter(None, [self._note, *self.reference.notes]))
        return Validation(self.reference.provider, note, tuple(runs))

    def first_partings(self, result: ModelFile, names: Sequence[str], validation: Validation) -> list[OutputCheck]:
        """Return the first of the named values at which a result parts from the original; see `localise`.

        ``validation`` is what the result failed. Raises Refused when a model does not run with the values exposed.
        """
        level, case = self._first_failure(validation)
        return first_partings(
            self._original,
            result,
            names,
            feeds=case.feeds,
            optimized=level == "all",
            provider=self.reference.provider,
            tolerance=self._tolerance,
        )

    def _first_failure(self, validation: Validation) -> tuple[str, Case]:
        """Return the level of onnxruntime's optimizations and the inputs of the first run that failed."""
        per_level = len(self.reference.cases)
        at = next(index for index, run in enumerate(validation.runs) if not run.ok)
        return validation.runs[at].ort_optimizations, self.reference.cases[at % per_level]


class _Judge:
    """Compares the result with the reference at both levels of onnxruntime's optimizations."""

    def __init__(self, original: ModelFile, result: ModelFile, reference: Reference, tolerance: Tolerance) -> None:
        self._original = original
        self._result = result
        self._reference = reference
        self._tolerance = tolerance

    def level_off(self) -> list[Run]:
        """Judge the rewrite alone."""
        return self._runs("off", self._checks(self._outputs(self._result, optimized=False)))

    def level_all(self) -> list[Run]:
        """Judge what deployment sees; onnxruntime's own doings are not held against the result."""
        found = self._outputs(self._result, optimized=True)
        checks = self._checks(found)
        if not all(check.ok for of_case in checks for check in of_case):
            checks = self._excuse(checks, found)
        return self._runs("all", checks)

    def _excuse(
        self, checks: Sequence[list[OutputCheck]], found: Sequence[dict[str, Value] | str]
    ) -> list[list[OutputCheck]]:
        originals = self._outputs(self._original, optimized=True)
        return [
            [check if check.ok else self._excused(check, case, outputs, own) for check in of_case]
            for of_case, case, outputs, own in zip(checks, self._reference.cases, found, originals, strict=True)
        ]

    def _excused(
        self, check: OutputCheck, case: Case, outputs: dict[str, Value] | str, own: dict[str, Value] | str
    ) -> OutputCheck:
        """Return the check of an output that differs, accepted if onnxruntime does the like to the original."""
        if isinstance(own, str):
            return replace(check, ok=True, note=f"not judged: onnxruntime's optimizations break the original ({own})")
        if isinstance(outputs, str) or check.name not in outputs:
            return check
        against_own = compare(check.name, own[check.name], outputs[check.name], self._tolerance)
        if against_own.ok:
            return replace(against_own, note="onnxruntime's optimizations change the original likewise")
        moved = compare(check.name, case.outputs[check.name], own[check.name], self._tolerance)
        if not moved.ok and _no_worse(check, moved):
            return replace(check, ok=True, note="not judged: onnxruntime's optimizations change the original as much")
        return check

    def _outputs(self, model: ModelFile, *, optimized: bool) -> list[dict[str, Value] | str]:
        """Return the outputs of a model for each case, or onnxruntime's reason; the session lives no longer."""
        cases = self._reference.cases
        try:
            session = open_session(model, optimized=optimized, provider=self._reference.provider)
        except Refused as refused:
            return [f"onnxruntime cannot load it: {refused}"] * len(cases)
        found: list[dict[str, Value] | str] = []
        for case in cases:
            try:
                found.append(run_by_name(session, case.feeds))
            except Refused as refused:
                found.append(f"onnxruntime cannot run it: {refused}")
        return found

    def _checks(self, found: Sequence[dict[str, Value] | str]) -> list[list[OutputCheck]]:
        return [
            self._failures(outputs)
            if isinstance(outputs, str)
            else [self._check(name, reference, outputs) for name, reference in case.outputs.items()]
            for case, outputs in zip(self._reference.cases, found, strict=True)
        ]

    def _check(self, name: str, reference: Value, outputs: Mapping[str, Value]) -> OutputCheck:
        if name not in outputs:
            return failed(name, "the result has no such output")
        if name in self._reference.random:
            return structure_only(name, reference, outputs[name], "random in the original: only its shape is compared")
        return compare(name, reference, outputs[name], self._tolerance)

    def _failures(self, reason: str) -> list[OutputCheck]:
        return [failed(port.name, reason) for port in self._reference.outputs]

    def _runs(self, level: str, checks: Sequence[Sequence[OutputCheck]]) -> list[Run]:
        return [
            Run(level, case.seed, dict(case.shapes), tuple(of_case))
            for case, of_case in zip(self._reference.cases, checks, strict=True)
        ]


def _no_worse(check: OutputCheck, moved: OutputCheck) -> bool:
    return check.max_abs <= _NOISE_FACTOR * moved.max_abs and check.max_rel <= _NOISE_FACTOR * moved.max_rel
