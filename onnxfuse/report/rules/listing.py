"""All rules, one line or one JSON object each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from onnxfuse.report import strict_json
from onnxfuse.report.rules.words import type_names
from onnxfuse.report.wording import Style, plain
from onnxfuse.rulebook.rule import Rule

SCHEMA_VERSION = 1
_TYPES = 3  # how many are named in a table
_COLUMNS = ("rule", "safety", "status", "opsets", "types", "what it does")


def table(rules: Sequence[Rule], style: Style = plain) -> str:
    """Return a table with a head; the summaries, which are long, come last."""
    rows = [_COLUMNS, *(_row(rule) for rule in rules)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(_COLUMNS) - 1)]
    lines = [
        "  ".join([*(f"{cell:{width}}" for cell, width in zip(row, widths, strict=False)), row[-1]]) for row in rows
    ]
    return "".join(line + "\n" for line in [style(lines[0], "faint"), *lines[1:]])


def _row(rule: Rule) -> tuple[str, ...]:
    first, last = rule.verified[0], rule.verified[-1]
    span = f"{first}-{last}" if first != last else str(first)
    names = list(dict.fromkeys(name for numbers in rule.types.values() for name in type_names(numbers)))
    more = f" +{len(names) - _TYPES}" if len(names) > _TYPES else ""
    return rule.name, rule.safety, rule.status, span, " ".join(names[:_TYPES]) + more, rule.summary


def to_json(rules: Sequence[Rule], place: Callable[[Rule], str | None]) -> str:
    """Return strict JSON; `place` says of a rule the file that it comes from, None if it is built in."""
    return strict_json.dumps(
        {"schema_version": SCHEMA_VERSION, "rules": [_record(rule, place(rule)) for rule in rules]}
    )


def _record(rule: Rule, path: str | None) -> dict[str, Any]:
    return {
        "name": rule.name,
        "summary": rule.summary,
        "safety": rule.safety,
        "status": rule.status,
        "order": rule.order,
        "opsets": list(rule.verified),
        "types": {name: type_names(numbers) for name, numbers in rule.types.items()},
        "matches": len(rule.matches),
        "samples": len(rule.samples),
        "rejects": len(rule.rejects),
        "path": path,
    }
