"""What verifying found, for reports: one record for each rule and each form."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Problem:
    """Something that is wrong with a rule: `kind` (see `KINDS`), the case in words, and what happened."""

    kind: str
    case: str
    message: str

    def __str__(self) -> str:
        return f"{self.kind}: {self.case}: {self.message}"


# The kinds of problems, and what each means.
KINDS: Mapping[str, str] = {
    "instance": "a case cannot be made from the rule's texts and a sample",
    "result": "the sides differ, or only one of them runs",
    "match": "the engine does not find the rule where its own match text stands, or makes something else of it",
    "reject": "a graph that must be refused is rewritten, or is no valid graph",
    "near-miss": "with one thing broken the rule still matches, and the result changes",
    "guard": "a guard without which results change is covered by no reject",
    "type": "a stable rule claims a type that never ran",
    "crash": "onnxruntime breaks down, or takes far too long or too much memory",
    "form": "two spellings of a form differ",
    "mutant": "a damaged rewrite gives the same results in every sample",
}


@dataclass(frozen=True)
class RuleProof:
    """How one rule fared.

    `run`: cases whose two sides ran and agreed.  `not_run`: reasons, each with the number of cases without a kernel.
    `fired`: how often the engine was run on a match side.  `refused`: rejects and near misses that were refused.
    `worst`: for each element type the largest difference, as a fraction of what is allowed.  `seconds`: processor time.
    """

    rule: str
    path: Path
    run: int = 0
    not_run: Mapping[str, int] = field(default_factory=dict)
    fired: int = 0
    refused: int = 0
    worst: Mapping[str, float] = field(default_factory=dict)
    problems: tuple[Problem, ...] = ()
    seconds: float = 0.0

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong with the rule."""
        return not self.problems


@dataclass(frozen=True)
class FormProof:
    """How one form fared: its spellings were run against the first in `run` cases."""

    form: str
    spellings: int
    run: int = 0
    not_run: int = 0
    problems: tuple[Problem, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong with the form."""
        return not self.problems


@dataclass(frozen=True)
class Verification:
    """How all rules and forms fared; `seed` draws the same data again."""

    rules: tuple[RuleProof, ...]
    forms: tuple[FormProof, ...]
    seed: int
    seconds: float

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong with any of them."""
        return all(proof.ok for proof in self.rules) and all(proof.ok for proof in self.forms)

    def to_dict(self) -> dict[str, Any]:
        """Return the record as JSON-ready data."""
        data = asdict(self)
        for rule in data["rules"]:
            rule["path"] = str(rule["path"])
        return {"ok": self.ok, **data}
