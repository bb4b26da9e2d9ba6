"""Counting what happened while a part of a rule is proven; parts are added up at the end."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from onnxfuse.prove.result import Problem

# Problems of one kind that are told in full; the rest are counted.
SHOWN = 5


@dataclass
class Tally:
    """What one part of a proof came to; the fields are those of `RuleProof`.  `types` are those that ran somewhere."""

    run: int = 0
    fired: int = 0
    refused: int = 0
    not_run: Counter[str] = field(default_factory=Counter)
    worst: dict[str, float] = field(default_factory=dict)
    types: set[tuple[str, int]] = field(default_factory=set)
    problems: list[Problem] = field(default_factory=list)
    covered: dict[str, bool] = field(default_factory=dict)
    seconds: float = 0.0

    def problem(self, kind: str, case: str, message: str) -> None:
        """Note that something is wrong."""
        self.problems.append(Problem(kind, case, message))

    def measure(self, type_name: str, part: float) -> None:
        """Note a difference, as a part of what is allowed."""
        self.worst[type_name] = max(self.worst.get(type_name, 0.0), part)

    def add(self, other: Tally) -> None:
        """Add what another part came to."""
        self.run += other.run
        self.fired += other.fired
        self.refused += other.refused
        self.not_run += other.not_run
        for name, part in other.worst.items():
            self.measure(name, part)
        self.types |= other.types
        self.problems += other.problems
        self.seconds += other.seconds

    def shown(self) -> tuple[Problem, ...]:
        """Return the problems, of each kind the first few and then their number."""
        kinds = Counter(problem.kind for problem in self.problems)
        told = [p for kind in kinds for p in [p for p in self.problems if p.kind == kind][:SHOWN]]
        more = [Problem(kind, f"{n - SHOWN} more cases", "as above") for kind, n in kinds.items() if n > SHOWN]
        return (*told, *more)
