"""What a model must be like to pass, apart from what an earlier report or a committed result says."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Final

from onnxfuse.gate.baseline import Baseline
from onnxfuse.report.record import Report
from onnxfuse.report.wording import counted

# What may be found, and what of it makes the gate say no unless told otherwise.
KINDS: Final = {
    "mismatch": "the result differs from the original, and that could not be undone",
    "undone": "fusions were undone, since they made the result differ",
    "missed": "the model holds what rules would fuse",
    "drift": "the committed result is not what the rules make of the model now",
    "regression": "less is fused than in the baseline, or more nodes are left",
    "budget": "a limit on nodes, fusions, rules or operators is passed",
}
FAIL_ON: Final = ("mismatch", "drift", "regression", "budget")


@dataclass(frozen=True)
class Policy:
    """When the gate says no.

    ``max_nodes``: of the result, nested graphs included. ``min_fused``: how often rules (names or globs) must have been
    applied; ``require``: rules of which each must have been applied. ``forbid_ops``: operators that the result must not
    hold. ``expect``: the committed result. ``baseline``: the report of an earlier run.
    """

    fail_on: frozenset[str] = frozenset(FAIL_ON)
    max_nodes: int | None = None
    min_fused: Mapping[str, int] = field(default_factory=dict)
    require: tuple[str, ...] = ()
    forbid_ops: tuple[str, ...] = ()
    expect: Path | None = None
    baseline: Baseline | None = None


def over_budget(report: Report, policy: Policy) -> Iterator[str]:
    """Yield a sentence for each limit that the result passes."""
    applied = Counter(fusion.rule for fusion in report.fusions)
    nodes, ops = report.model.nodes.after, report.model.ops.after
    if policy.max_nodes is not None and nodes > policy.max_nodes:
        yield f"the result has {counted(nodes, 'node')}, {policy.max_nodes:,} are allowed (max-nodes)"
    for rule, least in {**dict.fromkeys(policy.require, 1), **policy.min_fused}.items():
        count = sum(times for name, times in applied.items() if fnmatchcase(name, rule))
        if count < least:
            yield f"rule '{rule}' was applied {counted(count, 'time')}, {least:,} or more are asked for"
    for op in policy.forbid_ops:
        if ops.get(op):
            yield f"the result has {counted(ops[op], 'node')} of {op}, which is forbidden (forbid-op)"


def missed(report: Report) -> Iterator[str]:
    """Yield a sentence for each rule that still applies to the model."""
    for rule, times in sorted(Counter(fusion.rule for fusion in report.fusions).items()):
        yield f"rule '{rule}' applies {counted(times, 'time')}: run `onnxfuse optimize` on the model"


def undone(report: Report) -> Iterator[str]:
    """Yield a sentence for each fusion that was undone."""
    for one in report.undone:
        at = one.fusion.outputs[0] if one.fusion.outputs else one.fusion.scope
        yield f"rule '{one.fusion.rule}' was undone at '{at}', since it made the result differ"
