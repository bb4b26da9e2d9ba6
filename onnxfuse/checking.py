"""The gate: optimize a model without writing it, and hold what comes out against a policy."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from onnxfuse.errors import ValidationError
from onnxfuse.explaining import explain
from onnxfuse.gate import Policy
from onnxfuse.gate.baseline import Regression
from onnxfuse.gate.policy import missed, over_budget, undone
from onnxfuse.model.file import ModelFile, load, serialize
from onnxfuse.pipeline import PathLike, optimize
from onnxfuse.report.findings import Checked, Finding
from onnxfuse.report.record import Report
from onnxfuse.rewrite.steps import STEPS

# What of the arguments of `optimize` those of `explain` are.
_EXPLAINED = ("rules", "select", "ignore", "opset")


def check(model: PathLike, *, policy: Policy | None = None, **settings: Any) -> Checked:
    """Do what `optimize` does but for writing, and return what a policy finds in it.

    ``settings`` are arguments of `optimize`. Raises what that raises, but ValidationError, which is a finding; and
    InputError for a committed result that cannot be read.
    """
    policy = policy or Policy()
    path = Path(model)
    try:
        result = optimize(path, dry_run=True, **settings)
    except ValidationError as error:
        report: Report = error.report  # type: ignore[attr-defined]
        found = [("mismatch", str(error).removesuffix("; nothing was written"))]
        return _checked(path, report, [*found, *_common(report, policy, path, settings)], policy)
    drift = _drift(path, result.file, policy.expect)
    return _checked(path, result.report, [*drift, *_common(result.report, policy, path, settings)], policy)


def _checked(path: Path, report: Report, found: Sequence[tuple[str, str]], policy: Policy) -> Checked:
    findings = tuple(Finding(kind, text, kind in policy.fail_on) for kind, text in found)
    return Checked(path.as_posix(), findings, report)


def _common(report: Report, policy: Policy, path: Path, settings: dict[str, Any]) -> Iterator[tuple[str, str]]:
    yield from (("undone", text) for text in undone(report))
    if "missed" in policy.fail_on:
        yield from (("missed", text) for text in missed(report))
    for regression in policy.baseline.regressions(report) if policy.baseline else ():
        yield "regression", regression.text + _nearest(regression, path, settings)
    yield from (("budget", text) for text in over_budget(report, policy))


def _nearest(regression: Regression, path: Path, settings: dict[str, Any]) -> str:
    """Return the near miss that tells best why something is not fused any more, as the end of a sentence."""
    known = set(regression.rules) & _rules_used(settings)
    if not known:
        return f"; rule '{regression.rules[0]}' is not used now" if regression.rules else ""
    asked = {name: settings[name] for name in _EXPLAINED if name in settings}
    found = explain(path, rule=sorted(known), **asked).why_not
    for one in sorted(found, key=lambda one: not any(value in one.node for value in regression.values)):
        return f"; the nearest miss: rule '{one.rule}' at '{one.node}': {'; '.join(one.reasons)}"
    return f"; nothing in the model is like what rule '{sorted(known)[0]}' looks for any more"


def _rules_used(settings: dict[str, Any]) -> set[str]:
    from onnxfuse.rulebook.load import load_rulebook
    from onnxfuse.rulebook.select import selected

    names = {rule.name for rule in load_rulebook([Path(path) for path in settings.get("rules", ())]).rules}
    return names & set(selected([*STEPS, *sorted(names)], settings.get("select", ()), settings.get("ignore", ())))


def _drift(path: Path, result: ModelFile, expect: Path | None) -> Iterator[tuple[str, str]]:
    if expect is None:
        return
    committed = load(expect)
    if committed.sha256 == result.sha256 or _content(committed) == _content(result):
        return
    counts = [len(file.proto.graph.node) for file in (committed, result)]
    nodes = f" ({counts[0]:,} nodes there, {counts[1]:,} now)" if counts[0] != counts[1] else ""
    yield "drift", f"{expect} is not what the rules make of {path}{nodes}: run `onnxfuse optimize {path} -o {expect}`"


def _content(file: ModelFile) -> bytes:
    """Return a model with its weights in it, wherever they lay."""
    return serialize(file.materialize())
