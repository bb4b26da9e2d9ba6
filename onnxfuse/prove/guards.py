"""Which guards of a rule are needed, and whether the rule's rejects cover those."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from onnxfuse.errors import OnnxfuseError
from onnxfuse.match.pattern import Pattern, compile_patterns
from onnxfuse.prove.breakage import Breakage
from onnxfuse.prove.engine import apply
from onnxfuse.prove.instances import one_rule
from onnxfuse.prove.near_misses import data_misses, judge
from onnxfuse.prove.rejects import reject_model
from onnxfuse.prove.tally import Tally
from onnxfuse.prove.valid import Invalid
from onnxfuse.rulebook.rule import Rule, Rulebook


def prove_guards(book: Rulebook, rule: Rule, seed: int) -> Tally:
    """Require a reject for every guard without which a near miss would be rewritten into something else."""
    tally = Tally()
    refused: list[tuple[str, Breakage]] | None = None
    for what, relaxed in relaxations(rule):
        patterns = compile_patterns(one_rule(book, relaxed))
        if _covered(rule, patterns):
            continue
        refused = list(_refused(book, rule, seed)) if refused is None else refused
        if broken := _needed_for(rule, refused, patterns, seed):
            message = f"without it a near miss goes wrong ({broken}), and no [[reject]] breaks only this guard; add one"
            tally.problem("guard", what, message)
    return tally


def relaxations(rule: Rule) -> Iterator[tuple[str, Rule]]:
    """Yield the rule without one of the things it asks for, after what that is."""
    for name, guard in rule.inputs.items():
        parts = {"const": False, "dims": None, "onto": None, "type_name": "any"}
        for part, free in parts.items():
            if getattr(guard, part) != free:
                inputs = {**rule.inputs, name: replace(guard, **{part: free})}  # type: ignore[arg-type]
                yield f"{_PARTS[part]} of '{name}'", replace(rule, inputs=inputs)
    for name, spec in rule.attributes.items():
        for key in ("among", "covers"):
            if key in spec:
                freer = {k: v for k, v in spec.items() if k != key}
                yield f"'{key}' of '@{name}'", replace(rule, attributes={**rule.attributes, name: freer})
    for number, requirement in enumerate(rule.require):
        others = (*rule.require[:number], *rule.require[number + 1 :])
        yield f"the requirement that {requirement.why}", replace(rule, require=others)


_PARTS = {
    "const": "'const'",
    "dims": "the dims",
    "onto": "the dims after '->'",
    "type_name": "the type",
}


def _covered(rule: Rule, patterns: tuple[Pattern, ...]) -> bool:
    """Tell whether a reject matches once the guard is gone."""
    for reject in rule.rejects:
        try:
            if apply(reject_model(rule, reject), patterns).result is not None:
                return True
        except (Invalid, OnnxfuseError):
            continue
    return False


def _refused(book: Rulebook, rule: Rule, seed: int) -> Iterator[tuple[str, Breakage]]:
    """Yield the near misses of the first sample that the rule refuses for one reason that it can tell."""
    patterns = compile_patterns(one_rule(book, rule))
    for case, breakage in data_misses(book, rule, 0, seed):
        try:
            outcome = apply(breakage.model, patterns)
        except Exception:  # no valid model, or a bug that proving the near misses tells
            continue
        if outcome.result is None and outcome.reasons:
            yield case, breakage


def _needed_for(rule: Rule, refused: Iterable[tuple[str, Breakage]], patterns: tuple[Pattern, ...], seed: int) -> str:
    """Return a near miss that goes wrong without the guard, "" if none does."""
    for case, breakage in refused:
        if judge(rule, patterns, breakage, seed):
            return f"{case}, {breakage.what}"
    return ""
