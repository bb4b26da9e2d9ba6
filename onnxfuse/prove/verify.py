"""Verifying many rules at once: the work cut into parts, which run on all cores."""

from __future__ import annotations

import multiprocessing
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from typing import NamedTuple, TypeAlias

from onnxfuse.progress import Progress, silent
from onnxfuse.prove.forms import prove_form
from onnxfuse.prove.guards import prove_guards
from onnxfuse.prove.instances import prove_instances, type_name
from onnxfuse.prove.near_misses import prove_near_misses
from onnxfuse.prove.rejects import prove_rejects
from onnxfuse.prove.result import FormProof, RuleProof, Verification
from onnxfuse.prove.scene import type_choices
from onnxfuse.prove.tally import Tally
from onnxfuse.rulebook.rule import Rule, Rulebook
from onnxfuse.rulebook.select import selected

_Outcome: TypeAlias = Tally | FormProof


class _Part(NamedTuple):
    """A part of the work: what to do, and for which rule or form, types and sample."""

    kind: str
    name: str
    types: Mapping[str, int]
    sample: int = 0


_PROOFS: Mapping[str, Callable[[Rulebook, Rule, _Part, int], Tally]] = {
    "instances": lambda book, rule, part, seed: prove_instances(book, rule, part.types, part.sample, seed),
    "guards": lambda book, rule, part, seed: prove_guards(book, rule, seed),
    "near misses": lambda book, rule, part, seed: prove_near_misses(book, rule, part.sample, seed),
    "rejects": lambda book, rule, part, seed: prove_rejects(book, rule),
}

PHASE = "verifying"


def verify(
    book: Rulebook,
    *,
    names: Sequence[str] = (),
    jobs: int | None = None,
    seed: int = 0,
    progress: Progress = silent,
) -> Verification:
    """Verify the rules of a book whose names match `names` (names or globs; all, if there are none), and its forms.

    `jobs`: processes to use; None: one for each core, 1: none but this one.  `seed` draws the data.
    Raises UsageError for a name that no rule has.
    """
    start = time.perf_counter()
    chosen = selected([rule.name for rule in book.rules], names, ())
    rules = [rule for rule in book.rules if rule.name in chosen]
    parts = [part for rule in rules for part in _parts(rule)]
    parts += [_Part("form", name, {}) for name in _forms_used(book, rules)]
    outcomes: list[tuple[_Part, _Outcome]] = []
    for part, outcome in _run(book, parts, seed, jobs or os.cpu_count() or 1):
        outcomes.append((part, outcome))
        progress(PHASE, len(outcomes), len(parts))
    return Verification(
        tuple(_rule_proof(rule, [o for part, o in outcomes if part.name == rule.name]) for rule in rules),
        tuple(sorted((o for _, o in outcomes if isinstance(o, FormProof)), key=lambda proof: proof.form)),
        seed,
        time.perf_counter() - start,
    )


def _parts(rule: Rule) -> Iterator[_Part]:
    for types in type_choices(rule):
        for sample in range(len(rule.samples)):
            yield _Part("instances", rule.name, types, sample)
    for sample in range(len(rule.samples)):
        yield _Part("near misses", rule.name, {}, sample)
    yield _Part("rejects", rule.name, {})
    yield _Part("guards", rule.name, {})


def _forms_used(book: Rulebook, rules: Sequence[Rule]) -> list[str]:
    """Return the forms that the rules call, or that a form so called calls; all of them if all rules are verified."""
    if len(rules) == len(book.rules):
        return sorted(book.forms)
    found: set[str] = set()
    texts = [text for rule in rules for text in rule.matches]
    while texts:
        for node in texts.pop().nodes:
            if node.op in book.forms and node.domain and node.op not in found:
                found.add(node.op)
                texts += book.forms[node.op]
    return sorted(found)


def _run(book: Rulebook, parts: Sequence[_Part], seed: int, jobs: int) -> Iterator[tuple[_Part, _Outcome]]:
    if jobs == 1 or len(parts) == 1:
        for part in parts:
            yield part, _prove(book, part, seed)
        return
    # A process that has threads must not be forked: onnxruntime and the caller may have started some.
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(min(jobs, len(parts)), context, _start_worker, (book, seed)) as pool:
        waiting: dict[Future[_Outcome], _Part] = {pool.submit(_work, part): part for part in parts}
        for future in as_completed(waiting):
            yield waiting[future], future.result()


_worker: list[tuple[Rulebook, int]] = []


def _start_worker(book: Rulebook, seed: int) -> None:
    _worker.append((book, seed))


def _work(part: _Part) -> _Outcome:
    return _prove(_worker[0][0], part, _worker[0][1])


def _prove(book: Rulebook, part: _Part, seed: int) -> _Outcome:
    start = time.perf_counter()
    if part.kind == "form":
        return prove_form(book, part.name, seed)
    rule = next(rule for rule in book.rules if rule.name == part.name)
    tally = _PROOFS[part.kind](book, rule, part, seed)
    tally.seconds = time.perf_counter() - start
    return tally


def _rule_proof(rule: Rule, outcomes: Sequence[_Outcome]) -> RuleProof:
    total = Tally()
    for outcome in outcomes:
        if isinstance(outcome, Tally):
            total.add(outcome)
    if rule.status == "stable":
        variable = next(iter(rule.types))
        for elem_type in rule.types[variable]:
            if (variable, elem_type) not in total.types:
                total.problem("type", type_name(elem_type), "no case with this type ran; take it out of 'types'")
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
