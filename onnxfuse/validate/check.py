"""The validation itself: original against result, onnxruntime's own optimizations off and then on.

The reference of both levels is the original with onnxruntime's optimizations off: what the model says, untouched by
anyone. Off, the comparison judges our rewrite alone. On, it judges what deployment will see of the result, and only
where that differs is the original run with the optimizations on as well: what they do to the original too, or worse,
is not held against the result.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from onnxfuse.errors import OriginalFailsError
from onnxfuse.model.file import ModelFile
from onnxfuse.progress import Progress, silent
from onnxfuse.validate import providers
from onnxfuse.validate.bodies import Bodies
from onnxfuse.validate.compare import compare, failed, structure_only
from onnxfuse.validate.draw import CannotDraw
from onnxfuse.validate.inputs import read_inputs
from onnxfuse.validate.result import OutputCheck, Run, Validation
from onnxfuse.validate.search import Case, Search
from onnxfuse.validate.sessions import CPU, Port, Refused, Session, Value, open_session
from onnxfuse.validate.tolerance import Tolerance, coarsest_precision

PHASE = "validate"
_RANDOM_OPS = {"RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike", "Multinomial", "Bernoulli"}
# How much further than the original itself a result may be moved by onnxruntime's optimizations.
_NOISE_FACTOR = 4.0


@dataclass(frozen=True)
class _Reference:
    """What the original makes of the inputs that it accepts."""

    provider: str
    cases: tuple[Case, ...]
    outputs: tuple[Port, ...]
    random: frozenset[str]
    notes: tuple[str, ...]


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
    """Run both models on the same inputs and compare every output.

    At least two draws, and two sizes of every open dimension that takes two; each with onnxruntime's own optimizations
    off and on. ``provider`` is "auto", "cuda" or "cpu"; ``rtol`` and ``atol`` override the defaults of `tolerance`.
    Raises OriginalFailsError when onnxruntime cannot run the original, ProviderError for "cuda" without CUDA,
    InputError for a model in memory of over 2 GB.
    """
    tell = progress or silent
    name, note = providers.choose(provider)
    tolerance = Tolerance(coarsest_precision(original.proto), rtol, atol)
    try:
        reference = _reference(original, name, tolerance, seed, tell)
    except OriginalFailsError as failure:
        if provider != "auto" or name == CPU:
            raise
        reference = _reference(original, CPU, tolerance, seed, tell)
        note = f"not on CUDA: {failure.__cause__}"
    judge = _Judge(original, result, reference, tolerance)
    total = 2 * len(reference.cases)
    tell(PHASE, 0, total)
    runs = [*judge.level_off()]
    tell(PHASE, len(runs), total)
    runs.extend(judge.level_all())
    tell(PHASE, total, total)
    return Validation(reference.provider, "; ".join(filter(None, [note, *reference.notes])), tuple(runs))


def _reference(original: ModelFile, provider: str, tolerance: Tolerance, seed: int, tell: Progress) -> _Reference:
    bodies = Bodies(original)
    try:
        session = open_session(original, optimized=False, provider=provider)
        if session.provider != provider:
            raise Refused(f"it runs on {session.provider} instead of {provider}")
    except Refused as refused:
        raise OriginalFailsError(f"onnxruntime cannot load the original model: {refused}; {_HINT}") from refused
    try:
        search = Search(session, read_inputs(original, session.inputs, bodies), seed, lambda done: tell(PHASE, done, 0))
        cases = search.cases()
    except Refused as refused:
        raise OriginalFailsError(f"onnxruntime cannot run the original model: {refused}; {_HINT}") from refused
    except CannotDraw as problem:
        raise OriginalFailsError(f"the original model cannot be run: {problem}; {_HINT}") from problem
    random = _random_outputs(session, cases[0], tolerance) if bodies.has_op(_RANDOM_OPS) else frozenset()
    return _Reference(session.provider, tuple(cases), session.outputs, random, tuple(search.notes))


_HINT = "--no-validate writes the result unproven"


def _random_outputs(session: Session, case: Case, tolerance: Tolerance) -> frozenset[str]:
    """Return the outputs that differ when the original runs twice on the same inputs."""
    again = _run(session, case.feeds)
    checks = [compare(name, value, again[name], tolerance) for name, value in case.outputs.items()]
    return frozenset(check.name for check in checks if not check.ok)


def _run(session: Session, feeds: Mapping[str, Value]) -> dict[str, Value]:
    missing = [port.name for port in session.inputs if port.name not in feeds]
    if missing:
        raise Refused(f"input {missing[0]!r} is not an input of the original")
    return dict(zip([port.name for port in session.outputs], session.run(feeds), strict=True))


class _Judge:
    """Compares the result with the reference at both levels of onnxruntime's optimizations."""

    def __init__(self, original: ModelFile, result: ModelFile, reference: _Reference, tolerance: Tolerance) -> None:
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
                found.append(_run(session, case.feeds))
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
