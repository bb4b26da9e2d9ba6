"""Undoing: where a result differs from the original, what is at fault is found and left out, and all else is kept."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from dataclasses import replace
from typing import TypeAlias

from onnx import GraphProto

from onnxfuse.attempt import Attempt, Attempts, Mended, Permits
from onnxfuse.errors import OpsetError
from onnxfuse.report.survey import default_opset
from onnxfuse.rewrite.trace import Fusion, Site
from onnxfuse.validate import OutputCheck, Undone, Validation, Validator
from onnxfuse.validate.sessions import Refused

# A fault behind another one shows only when that is undone: so often the values are looked at anew.
_MOST_ROUNDS = 30

# What may be at fault: one application of a rule, or a clean-up step by its name.
_Suspect: TypeAlias = Site | str


def mend(attempts: Attempts, validator: Validator, first: Attempt, opset: str | int) -> Mended:
    """Return a good attempt in place of a bad one, with as little undone as possible; the bad one if there is none.

    Judged in turn: raising the opset alone; the fusions at which result and original part; the model's own opset;
    then, by halves, whatever has been done.
    """
    mending = _Mending(attempts, validator, opset)
    best = mending.without_raising(first)
    for cure in (mending.by_partings, mending.at_own_opset, mending.by_halves):
        if best.good:
            break
        best = cure(best)
    if best.good:
        return Mended(best, tuple(mending.undone.values()))
    return Mended(first, ())


def accused(validator: Validator, attempt: Attempt) -> tuple[str, ...]:
    """Return sentences that name the fusions at which a bad result first parts from the original."""
    found = _partings(validator, attempt)
    return tuple(
        f"rule '{fusion.rule}' at '{fusion.outputs[0] if fusion.outputs else fusion.scope}' is where the result parts "
        f"from the original{'' if check is None else f': by {check.max_abs:.3g}, tolerance {check.tolerance:.3g}'}"
        for fusion, check in found
    )


def fault_of(validation: Validation | None) -> str:
    """Return what is wrong with the worst output of a result that is no good."""
    assert validation is not None
    worst = max((check for _, check in validation.failures), key=_excess)
    if worst.note:
        return f"output '{worst.name}' of the result: {worst.note}"
    return f"output '{worst.name}' of the result differs by {worst.max_abs:.3g}, the tolerance is {worst.tolerance:.3g}"


def _excess(check: OutputCheck) -> float:
    return check.max_abs / check.tolerance if check.tolerance else check.max_abs


class _Mending:
    """One model being mended; ``undone`` grows."""

    def __init__(self, attempts: Attempts, validator: Validator, opset: str | int) -> None:
        self._attempts, self._validator, self._opset = attempts, validator, opset
        self._notes: tuple[str, ...] = ()
        self.undone: dict[Site, Undone] = {}

    def _make(self, permits: Permits | None = None, without: Set[str] = frozenset()) -> Attempt:
        permits = permits or (lambda site: site not in self.undone)
        made = self._attempts.make(self._opset, permits=permits, without=without)
        return replace(made, notes=(*self._notes, *made.notes))

    def without_raising(self, bad: Attempt) -> Attempt:
        """Keep the opset if raising it is at fault by itself."""
        if self._opset != "auto" or bad.opset is None or bad.opset == default_opset(self._attempts.original.proto):
            return bad
        try:
            raised = self._attempts.only_raised(bad.opset)
        except OpsetError:  # only with the fusions does it have that opset
            return bad
        return bad if raised.good else self._keep(f"raised to {bad.opset} alone, {fault_of(raised.validation)}")

    def at_own_opset(self, bad: Attempt) -> Attempt:
        """Keep the opset: runtimes lack kernels of some operators at newer ones."""
        if self._opset != "auto" or bad.opset == default_opset(self._attempts.original.proto):
            return bad
        undone = dict(self.undone)
        kept = self._keep(f"at {bad.opset} {fault_of(bad.validation)}")
        if not kept.good:
            self._opset, self._notes, self.undone = "auto", (), undone
            return bad
        return kept

    def _keep(self, why: str) -> Attempt:
        self._opset, self._notes = "keep", (f"the opset is kept: {why}",)
        self.undone.clear()
        return self._make()

    def by_partings(self, bad: Attempt) -> Attempt:
        """Undo the fusions whose values are the first to differ, until the result is good or none can be named."""
        doubtful: list[Site] = []
        for _ in range(_MOST_ROUNDS):
            found = [(fusion, check) for fusion, check in _partings(self._validator, bad) if _is_rule(fusion)]
            new = {fusion.site: Undone(fusion, check) for fusion, check in found if fusion.site not in self.undone}
            if not new:
                break
            doubtful += [site for site, undone in new.items() if undone.check is None]
            self.undone.update(new)
            bad = self._make()
            if bad.good:
                return self._restored(bad, doubtful)
        return bad

    def _restored(self, good: Attempt, doubtful: Sequence[Site]) -> Attempt:
        """Return what was undone on a mere suspicion where it proves to be right."""
        if len(doubtful) < 2:
            return good
        suspicion = {site: self.undone.pop(site) for site in doubtful}

        def allowed(sites: Sequence[_Suspect]) -> bool:
            return self._make(lambda site: site not in self.undone and (site not in suspicion or site in sites)).good

        guilty = _guilty(doubtful, allowed)
        self.undone.update((site, suspicion[site]) for site in doubtful if site in guilty)
        again = self._make()
        if not again.good:
            self.undone.update(suspicion)
        return again if again.good else good

    def by_halves(self, bad: Attempt) -> Attempt:
        """Leave out ever smaller parts of what was done, until what is at fault is left."""
        fusions = {fusion.site: fusion for fusion in bad.trace.fusions if _is_rule(fusion)}
        steps = sorted({fusion.rule for fusion in bad.trace.fusions if not _is_rule(fusion)})

        def allowed(chosen: Sequence[_Suspect]) -> bool:
            return self._make(lambda site: site in chosen, frozenset(steps) - set(chosen)).good

        if not allowed([]):
            return bad
        # The steps and what came first are cleared first: a fusion may stand only on what they prepare.
        guilty = _guilty([*steps, *fusions], allowed)
        self.undone.update((site, Undone(fusion, None)) for site, fusion in fusions.items() if site in guilty)
        left_out = frozenset(step for step in steps if step in guilty)
        self._notes += tuple(f"step '{step}' is left out: with it the result differs" for step in sorted(left_out))
        good = self._make(without=left_out)
        innocent = set(fusions) - guilty
        return good if good.good else self._make(lambda site: site in innocent, left_out)


def _guilty(suspects: Sequence[_Suspect], allowed: Callable[[Sequence[_Suspect]], bool]) -> set[_Suspect]:
    """Return the suspects that cannot be allowed beside those before them; about log2(n) questions for each of them."""
    guilty: set[_Suspect] = set()
    cleared: list[_Suspect] = []
    stack = [list(suspects)]
    while stack:
        part = stack.pop()
        if allowed([*cleared, *part]):
            cleared += part
        elif len(part) == 1:
            guilty.update(part)
        else:
            half = len(part) // 2
            stack += [part[half:], part[:half]]
    return guilty


def _is_rule(fusion: Fusion) -> bool:
    """Tell a rule's work from that of a clean-up step, which is left out altogether if it is at fault."""
    from onnxfuse.rewrite.steps import STEPS

    return fusion.rule not in STEPS


def _partings(validator: Validator, attempt: Attempt) -> list[tuple[Fusion, OutputCheck | None]]:
    """Return the fusions whose values are the first to differ from the original.

    The values of nested graphs cannot be seen: where the node that holds one gives a wrong value, all fusions inside
    are meant, and there is no check of theirs.
    """
    assert attempt.validation is not None
    holders = dict(_holders(attempt.result.proto.graph))
    fusions = attempt.trace.fusions
    names = [name for fusion in fusions if not fusion.scope for name in fusion.outputs]
    try:
        checks = validator.first_partings(attempt.result, [*names, *holders], attempt.validation)
    except Refused:
        return []
    return [(fusion, seen) for check in checks for fusion, seen in _givers(check, fusions, holders.get(check.name))]


def _givers(
    check: OutputCheck, fusions: Iterable[Fusion], holder: str | None
) -> Iterator[tuple[Fusion, OutputCheck | None]]:
    """Yield the last fusion that gave a value, or those in the graphs of the node that gives it."""
    gave = [fusion for fusion in fusions if not fusion.scope and check.name in fusion.outputs and _is_rule(fusion)]
    yield from ((fusion, check) for fusion in gave[-1:])
    if holder is not None:
        yield from ((fusion, None) for fusion in fusions if fusion.scope.startswith(holder))


def _holders(graph: GraphProto) -> Iterator[tuple[str, str]]:
    """Yield the values that nodes with nested graphs give, each with the beginning of the names of those scopes."""
    for node in graph.node:
        if any(attribute.HasField("g") or attribute.graphs for attribute in node.attribute):
            yield from ((name, f"{node.name or node.op_type}.") for name in node.output if name)
