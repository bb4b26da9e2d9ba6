"""Verifying many rules at once: the work cut into parts, which run on all cores."""

from __future__ import annotations

import os
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import NamedTuple, TypeAlias

from onnxfuse.progress import Progress, silent
from onnxfuse.prove.forms import prove_form
from onnxfuse.prove.instances import prove_instances, type_name
from onnxfuse.prove.near_misses import prove_near_misses
from onnxfuse.prove.rejects import prove_rejects
from onnxfuse.prove.result import FormProof, RuleProof, Verification
from onnxfuse.prove.sides.scene import type_choices
from onnxfuse.prove.tally import Tally
from onnxfuse.prove.workers import BYTES, SECONDS, Workers
from onnxfuse.rulebook.forms import forms_called
from onnxfuse.rulebook.rule import Rule, Rulebook
from onnxfuse.rulebook.select import selected

_Outcome: TypeAlias = Tally | FormProof


class _Part(NamedTuple):
    """A part of the work: what to do, and for which rule or form, types and sample."""

    kind: str
    name: str
    types: Mapping[str, int]
    sample: int = 0


class _Setting(NamedTuple):
    """What all parts have in common."""

    book: Rulebook
    seed: int = 0
    exhaustive: bool = False


PHASE = "verifying"


def verify(
    book: Rulebook,
    *,
    names: Sequence[str] = (),
    forms: Collection[str] | None = None,
    jobs: int | None = None,
    seed: int = 0,
    exhaustive: bool = False,
    progress: Progress = silent,
) -> Verification:
    """Verify the rules of a book whose names match `names` (names or globs; all, if there are none), and its forms.

    `forms`: the forms to verify; None: those that the rules call, with all rules all there are.
    `jobs`: processes to use; None: one for each core, 1: none but this one.  `seed` draws the data.
    `exhaustive`: every spelling at every opset with every sample, and every near miss of each; without it they are
    dealt out so that all of them come, but not in every combination.  Raises UsageError for a name that no rule has.
    """
    start = time.perf_counter()
    chosen = selected([rule.name for rule in book.rules], names, ())
    rules = [rule for rule in book.rules if rule.name in chosen]
    parts = [part for rule in rules for part in _parts(rule)]
    wanted = _forms_used(book, rules) if forms is None else sorted(forms)
    parts += [_Part("form", name, {}) for name in wanted]
    outcomes: list[tuple[_Part, _Outcome]] = []
    for part, outcome in _run(_Setting(book, seed, exhaustive), parts, jobs or os.cpu_count() or 1):
        outcomes.append((part, outcome))
        progress(PHASE, len(outcomes), len(parts))
    return Verification(
        tuple(_rule_proof(rule, [o for part, o in outcomes if part.name == rule.name]) for rule in rules),
        tuple(sorted((o for _, o in outcomes if isinstance(o, FormProof)), key=lambda proof: proof.form)),
        seed,
        time.perf_counter() - start,
    )


def verify_rule(book: Rulebook, name: str, *, seed: int = 0, exhaustive: bool = False, whole: bool = True) -> RuleProof:
    """Verify one rule in this process, and none of its forms; without `whole`, stop at the first part that fails."""
    rule = next(rule for rule in book.rules if rule.name == name)
    outcomes: list[_Outcome] = []
    for part in _parts(rule):
        outcome = _prove(_Setting(book, seed, exhaustive), part)
        outcomes.append(outcome)
        if not whole and isinstance(outcome, Tally) and outcome.problems:
            break
    return _rule_proof(rule, outcomes)


def _parts(rule: Rule) -> Iterator[_Part]:
    yield _Part("rejects", rule.name, {})
    for types in type_choices(rule):
        for sample in range(len(rule.samples)):
            yield _Part("instances", rule.name, types, sample)
    for sample in range(len(rule.samples)):
        yield _Part("near misses", rule.name, {}, sample)


def _forms_used(book: Rulebook, rules: Sequence[Rule]) -> list[str]:
    """Return the forms that the rules call, or that a form so called calls; all of them if all rules are verified."""
    if len(rules) == len(book.rules):
        return sorted(book.forms)
    return forms_called([text for rule in rules for text in rule.matches], book)


def _run(setting: _Setting, parts: Sequence[_Part], jobs: int) -> Iterator[tuple[_Part, _Outcome]]:
    """Yield the parts with what they come to, as they are done."""
    if jobs == 1 or len(parts) == 1:
        for part in parts:
            yield part, _prove(setting, part)
        return
    yield from Workers(_prove, setting, _broken, jobs).run(parts)


def _broken(part: _Part) -> _Outcome:
    """Return what a part comes to that ends its process."""
    case = part.kind if part.kind in ("form", "rejects") else f"{part.kind}, sample {part.sample + 1}"
    message = f"onnxruntime breaks down, or a case takes more than {SECONDS} s or {BYTES >> 30} GB"
    tally = Tally()
    tally.problem("crash", case, message)
    return FormProof(part.name, 0, problems=tuple(tally.problems)) if part.kind == "form" else tally


def _prove(setting: _Setting, part: _Part) -> _Outcome:
    book, seed, exhaustive = setting
    start = time.process_time()
    if part.kind == "form":
        return prove_form(book, part.name, seed)
    rule = next(rule for rule in book.rules if rule.name == part.name)
    if part.kind == "instances":
        tally = prove_instances(book, rule, part.types, part.sample, seed, exhaustive)
    elif part.kind == "near misses":
        tally = prove_near_misses(book, rule, part.sample, seed, exhaustive)
    else:
        tally = prove_rejects(book, rule)
    tally.seconds = time.process_time() - start
    return tally


def _rule_proof(rule: Rule, outcomes: Sequence[_Outcome]) -> RuleProof:
    total = Tally()
    for outcome in outcomes:
        if isinstance(outcome, Tally):
            total.add(outcome)
    if not rule.samples:
        total.problem("instance", "no sample", "nothing shows that the two sides agree: add a [[sample]]")
    elif rule.status == "stable":
        claimed = [(variable, elem_type) for variable, types in rule.types.items() for elem_type in types]
        for variable, elem_type in claimed:
            if (variable, elem_type) not in total.types:
                case = f"{variable} = {type_name(elem_type)}"
                total.problem("type", case, "no case with this type ran; take it out of 'types'")
    return RuleProof(
        rule.name,
        rule.path,
        total.run,
        dict(total.not_run),
        total.fired,
        total.refused,
        total.worst,
        total.shown(),
        total.seconds,
    )
