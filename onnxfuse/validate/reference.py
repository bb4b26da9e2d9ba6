"""The reference of a validation: what the original makes of inputs that it accepts, its optimizations off."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from onnxfuse.errors import OriginalFailsError
from onnxfuse.model.file import ModelFile
from onnxfuse.progress import Progress
from onnxfuse.validate.bodies import Bodies
from onnxfuse.validate.compare import compare
from onnxfuse.validate.draw import CannotDraw
from onnxfuse.validate.inputs import read_inputs
from onnxfuse.validate.search import Case, Search
from onnxfuse.validate.sessions import CPU, Port, Refused, Session, Value, open_session
from onnxfuse.validate.tolerance import Tolerance

PHASE = "validate"
_RANDOM_OPS = {"RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike", "Multinomial", "Bernoulli"}
_HINT = "--no-validate writes the result unproven"


@dataclass(frozen=True)
class Reference:
    """What the original makes of the inputs that it accepts; ``random`` are the outputs that it draws."""

    provider: str
    cases: tuple[Case, ...]
    outputs: tuple[Port, ...]
    random: frozenset[str]
    notes: tuple[str, ...]


def make_reference(
    original: ModelFile, provider: str, tolerance: Tolerance, seed: int, tell: Progress, *, fall_back: bool
) -> Reference:
    """Run the original on drawn inputs, on the CPU if it does not run on ``provider`` and may ``fall_back``.

    Raises OriginalFailsError when onnxruntime cannot run it.
    """
    try:
        return _on(original, provider, tolerance, seed, tell, ())
    except OriginalFailsError as failure:
        if not fall_back or provider == CPU:
            raise
        note = f"not on CUDA: {failure.__cause__}"
    return _on(original, CPU, tolerance, seed, tell, (note,))


def _on(
    original: ModelFile, provider: str, tolerance: Tolerance, seed: int, tell: Progress, notes: tuple[str, ...]
) -> Reference:
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
    return Reference(session.provider, tuple(cases), session.outputs, random, (*notes, *search.notes))


def _random_outputs(session: Session, case: Case, tolerance: Tolerance) -> frozenset[str]:
    """Return the outputs that differ when the original runs twice on the same inputs."""
    again = run_by_name(session, case.feeds)
    checks = [compare(name, value, again[name], tolerance) for name, value in case.outputs.items()]
    return frozenset(check.name for check in checks if not check.ok)


def run_by_name(session: Session, feeds: Mapping[str, Value]) -> dict[str, Value]:
    """Run a model on the inputs of the original and return its outputs by name; raises Refused."""
    missing = [port.name for port in session.inputs if port.name not in feeds]
    if missing:
        raise Refused(f"input {missing[0]!r} is not an input of the original")
    return dict(zip([port.name for port in session.outputs], session.run(feeds), strict=True))
