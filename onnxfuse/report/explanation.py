"""Why not: the record of what keeps rules from being applied in a model, and the record as text and JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from onnxfuse.report import strict_json
from onnxfuse.report.fusion_lines import fusion_lines
from onnxfuse.report.wording import Style, counted, plain, printable, quoted

if TYPE_CHECKING:
    from onnxfuse.rewrite.trace import Fusion

SCHEMA_VERSION = 1

# Where only a part of a pattern is there, it is worth telling of from so many nodes, and from this share of it, on.
_LEAST_NODES = 3
_LEAST_SHARE = 0.6

# Up to so many places of one rule are listed.
_LISTED = 3


@dataclass(frozen=True)
class WhyNot:
    """One place where a rule was not applied: ``matched`` of the ``of`` nodes of its match text are there.

    ``node`` gives what the rule would compute, ``stopped_at`` is the node at which it ended, for one or two
    ``reasons``. All are there where only a guard, or another reader of a value, is in the way.
    """

    rule: str
    match: str
    scope: str
    node: str
    op: str
    stopped_at: str
    matched: int
    of: int
    reasons: tuple[str, ...]

    @property
    def near(self) -> bool:
        """Whether one thing is in the way of the whole, or most of a larger pattern is there."""
        if self.matched >= self.of:
            return len(self.reasons) == 1
        return self.matched >= max(_LEAST_NODES, _LEAST_SHARE * self.of)


@dataclass(frozen=True)
class Explanation:
    """What there is to say of a model, the nearest first; ``fusions`` are those that were made where it was asked."""

    path: str | None
    opset: int | None
    fusions: tuple[Fusion, ...]
    why_not: tuple[WhyNot, ...]

    def to_json(self) -> str:
        """The explanation as strict JSON with sorted keys."""
        return strict_json.dumps({
            "schema_version": SCHEMA_VERSION,
            "path": self.path,
            "opset": self.opset,
            "fusions": [asdict(fusion) for fusion in self.fusions],
            "why_not": [asdict(one) for one in self.why_not],
        })  # fmt: skip


def render(explanation: Explanation, *, every: bool = False, style: Style = plain) -> str:
    """Render an explanation as lines: what was fused, then for each rule where it was not applied and why.

    ``every``: all places of each rule, not only the nearest ones.
    """
    name = printable(explanation.path or "model in memory")
    opset = f"  opset {explanation.opset}" if explanation.opset is not None else ""
    head = f"{style(name, 'strong')}{opset}, {counted(len(explanation.fusions), 'fusion')}"
    fused = [f"  {line}" for line in fusion_lines(explanation.fusions, every, style)] if every else []
    lines = [head, *fused, *_rule_lines(explanation.why_not, every, style)]
    if not explanation.why_not:
        lines.append("  no near miss: no rule has most of its match text anywhere else")
    return "".join(line + "\n" for line in lines)


def _rule_lines(found: Sequence[WhyNot], every: bool, style: Style) -> list[str]:
    lines: list[str] = []
    for rule in dict.fromkeys(one.rule for one in found):
        places = [one for one in found if one.rule == rule]
        listed = places if every else places[:_LISTED]
        lines.append(f"  {style(f'- {printable(rule)}', 'change')}  not at {counted(len(places), 'place')}")
        lines.extend(line for one in listed for line in _place(one, style))
        if len(places) > len(listed):
            lines.append(style(f"    and {counted(len(places) - len(listed), 'more place')} (-v lists them)", "faint"))
    return lines


def _place(one: WhyNot, style: Style) -> list[str]:
    share = f"  {one.matched} of {one.of} nodes are there" if one.of else ""
    scope = f"  in {quoted(one.scope)}" if one.scope else ""
    op = f"{printable(one.op)} " if one.op else ""
    return [
        f"    {op}{quoted(one.node)}{scope}{style(share, 'faint')}",
        *(f"      {printable(r)}" for r in one.reasons),
    ]
