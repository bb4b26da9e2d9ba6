"""The report of an earlier run, and what is worse now."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Any

from onnxfuse.errors import InputError
from onnxfuse.report.record import SCHEMA_VERSION, Report
from onnxfuse.report.wording import counted


@dataclass(frozen=True)
class Regression:
    """Something that is worse than in the baseline: a sentence, the rules that did better, and where they did."""

    text: str
    rules: tuple[str, ...] = ()
    values: tuple[str, ...] = ()


@dataclass(frozen=True)
class _Applied:
    """One fusion of the baseline: its rule, its operators before and after, and the values that it gave."""

    rule: str
    before: tuple[str, ...]
    after: tuple[str, ...]
    values: tuple[str, ...]


@dataclass(frozen=True)
class Baseline:
    """What is compared of an earlier run on one model."""

    nodes: int
    ops: Mapping[str, int]
    fusions: tuple[_Applied, ...]

    @classmethod
    def read(cls, path: Path, model: PurePath) -> Baseline:
        """Read the JSON report of one model, or that of several in which the model is.

        Raises InputError for a file that is no report, or has none of the model.
        """
        document = _document(path)
        reports = [document] if "fusions" in document else document.get("reports", [])
        reports = [one for one in reports if len(reports) == 1 or one["model"]["path"] == model.as_posix()]
        if len(reports) != 1:
            raise InputError(f"{path}: holds no report of {model.as_posix()}; make one with --report json:{path}")
        try:
            return cls._of(reports[0])
        except (KeyError, TypeError, AttributeError) as error:
            raise InputError(f"{path}: is no report of onnxfuse: {error!r} is missing or wrong in it") from error

    @classmethod
    def _of(cls, report: Mapping[str, Any]) -> Baseline:
        fusions = tuple(
            _Applied(
                fusion["rule"],
                tuple(node["op"] for node in fusion["before"]),
                tuple(node["op"] for node in fusion["after"]),
                tuple(name for node in fusion["after"] for name in node["outputs"]),
            )
            for fusion in report["fusions"]
        )
        return cls(report["model"]["nodes"]["after"], dict(report["model"]["ops"]["after"]), fusions)

    def regressions(self, report: Report) -> Iterator[Regression]:
        """Yield what is worse in a report: operators that are no longer made, or no longer gone, and nodes."""
        now = report.model.ops.after
        given = {name for fusion in report.fusions for node in fusion.after for name in node.outputs}
        for op in sorted(self._counts(made=True)):
            if now.get(op, 0) < self.ops.get(op, 0):
                yield self._regression(op, now, given, made=True)
        for op in sorted(self._counts(made=False)):
            if now.get(op, 0) > self.ops.get(op, 0):
                yield self._regression(op, now, given, made=False)
        if report.model.nodes.after > self.nodes:
            yield Regression(f"{counted(report.model.nodes.after, 'node')} are left, {self.nodes:,} in the baseline")

    def _counts(self, made: bool) -> Counter[str]:
        """Count the operators that fusions made out of others, or took away."""
        pairs = ((f.after, f.before) if made else (f.before, f.after) for f in self.fusions)
        return Counter(op for ours, others in pairs for op in set(ours) - set(others))

    def _regression(self, op: str, now: Mapping[str, int], given: set[str], made: bool) -> Regression:
        fusions = [f for f in self.fusions if op in (f.after if made else f.before)]
        lost = [f for f in fusions if given.isdisjoint(f.values)] or fusions
        text = f"{op} {self.ops.get(op, 0):,} -> {now.get(op, 0):,}"
        return Regression(text, _unique(f.rule for f in lost), _unique(name for f in lost for name in f.values))


def _unique(names: Iterator[str] | Sequence[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(names))


def _document(path: Path) -> dict[str, Any]:
    try:
        document = json.loads(path.read_text("utf-8"))
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror or error}") from error
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path}: is no JSON report: {error}") from error
    version = document.get("schema_version") if isinstance(document, dict) else None
    if version != SCHEMA_VERSION:
        raise InputError(f"{path}: is no report of version {SCHEMA_VERSION}; make one with --report json:{path}")
    return document  # type: ignore[no-any-return]
