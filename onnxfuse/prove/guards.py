"""Which guards of a rule are needed, and whether the rule's rejects cover those."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from onnxfuse.errors import EndlessRulesError, OnnxfuseError
from onnxfuse.match.pattern import Pattern, compile_patterns
from onnxfuse.prove.breaking.structure import Breakage
from onnxfuse.prove.instances import one_rule
from onnxfuse.prove.rejects import reject_model
from onnxfuse.prove.running.engine import apply
from onnxfuse.prove.sides.valid import Invalid
from onnxfuse.prove.tally import Tally
from onnxfuse.rulebook.rule import Rule, Rulebook


@dataclass(frozen=True)
class Refusal:
    """A near miss that a rule refuses, the case it comes from, and the one reason that the rule can tell."""

    case: str
    breakage: Breakage
    reason: str


# How many near misses are tried without a guard, at most, before it is taken to be needless.
_TRIED = 32

# Tells what goes wrong when patterns are applied to a near miss, "" if nothing does.
Judgement: TypeAlias = Callable[[tuple[Pattern, ...], Breakage], str]


def prove_guards(book: Rulebook, rule: Rule, refused: Sequence[Refusal], judge: Judgement, tally: Tally) -> None:
    """Require a reject for every guard without which a near miss would be rewritten into something else."""
    for what, relaxed in relaxations(rule):
        patterns = compile_patterns(one_rule(book, relaxed))
        if _covered(rule, patterns):
            continue
        # A reason about a dim may name another value than the one whose dims are asked for.
        near = [refusal for refusal in refused if what.subject in refusal.reason or what.part == "dims"]
        near = near[:: len(near) // _TRIED + 1]
        if broken := next((refusal for refusal in near if judge(patterns, refusal.breakage)), None):
            where = f"{broken.case}, {broken.breakage.what}"
            message = f"without it a near miss goes wrong ({where}), and no [[reject]] breaks only this guard; add one"
            tally.problem("guard", str(what), message)


@dataclass(frozen=True)
class Demand:
    """One thing that a rule asks for: a part of the guard of an input, something of an attribute, a requirement."""

    part: str
    subject: str

    def __str__(self) -> str:
        return f"{_PARTS.get(self.part, self.part)} of '{self.subject}'" if self.subject else self.part


def relaxations(rule: Rule) -> Iterator[tuple[Demand, Rule]]:
    """Yield the rule without one of the things it asks for, after what that is."""
    for name, guard in rule.inputs.items():
        parts = {"const": False, "dims": None, "onto": None, "type_name": "any"}
        for part, free in parts.items():
            if getattr(guard, part) != free:
                inputs = {**rule.inputs, name: replace(guard, **{part: free})}  # type: ignore[arg-type]
                yield Demand(part, name), replace(rule, inputs=inputs)
    for name, spec in rule.attributes.items():
        for key in ("among", "covers"):
            if key in spec:
                freer = {k: v for k, v in spec.items() if k != key}
                yield (
                    Demand(key, name if key == "among" else ""),
                    replace(rule, attributes={**rule.attributes, name: freer}),
                )
    for number, requirement in enumerate(rule.require):
        others = (*rule.require[:number], *rule.require[number + 1 :])
        yield Demand(f"the requirement that {requirement.why}", ""), replace(rule, require=others)


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
        except EndlessRulesError:  # it matches without end
            return True
        except (Invalid, OnnxfuseError):
            continue
    return False
