"""What lint finds, and the texts of a rule that it looks at."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from onnxfuse.rulebook.rule import Rule, Text
from onnxfuse.rulebook.syntax.kinds import Where


@dataclass(frozen=True)
class Finding:
    """Something that a rule file should not have, and how to mend it."""

    rule: str
    path: Path
    line: int
    column: int
    message: str
    fix: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}:{self.column}: {self.message}; {self.fix}"


@dataclass(frozen=True)
class Found:
    """A problem and what to do about it."""

    where: Where
    message: str
    fix: str


def texts(rule: Rule) -> Iterator[tuple[Text, Where]]:
    """Yield the match texts and the rewrite, each with its place in the file."""
    for index, text in enumerate(rule.matches):
        yield text, ("match", index, "text")
    yield rule.rewrite, ("rewrite", "text")
