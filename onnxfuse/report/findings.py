"""What a gate found: a record of findings, and the record as text and JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from onnxfuse.report import strict_json
from onnxfuse.report.wording import Style, counted, plain, printable

if TYPE_CHECKING:
    from onnxfuse.report.record import Report

SCHEMA_VERSION = 1


@dataclass(frozen=True)
class Finding:
    """One thing that the gate noticed: its kind, a sentence, and whether the gate says no because of it."""

    kind: str
    text: str
    fails: bool

    def to_dict(self) -> dict[str, object]:
        return {"kind": self.kind, "text": self.text, "fails": self.fails}


@dataclass(frozen=True)
class Checked:
    """What the gate says of one model; ``report`` is that of optimizing it, of which nothing was written."""

    path: str
    findings: tuple[Finding, ...]
    report: Report

    @property
    def passed(self) -> bool:
        """Whether no finding fails."""
        return not any(finding.fails for finding in self.findings)

    def to_dict(self) -> dict[str, object]:
        """The findings and the report as plain dicts, lists, strings and numbers."""
        return {
            "path": self.path,
            "passed": self.passed,
            "findings": [finding.to_dict() for finding in self.findings],
            "report": self.report.to_dict(),
        }


def to_json(checked: Sequence[Checked]) -> str:
    """All that was checked, as strict JSON with sorted keys."""
    passed = all(one.passed for one in checked)
    models = [one.to_dict() for one in checked]
    return strict_json.dumps({"schema_version": SCHEMA_VERSION, "passed": passed, "models": models})


def render(checked: Checked, *, verbosity: int = 0, style: Style = plain) -> str:
    """A line for each finding and one for the model; below 0 only what fails, and the model."""
    shown = [finding for finding in checked.findings if finding.fails or verbosity >= 0]
    lines = [*(_finding_line(finding, style) for finding in shown), _line(checked, style)]
    return "".join(line + "\n" for line in lines)


def _finding_line(finding: Finding, style: Style) -> str:
    mark, role = ("!", "bad") if finding.fails else ("~", "change")
    return f"  {style(mark, role)} {style(finding.kind, role)}: {printable(finding.text)}"


def _line(checked: Checked, style: Style) -> str:
    nodes, failed = checked.report.model.nodes, sum(finding.fails for finding in checked.findings)
    facts = [counted(len(checked.report.fusions), "fusion"), f"{nodes.before:,} -> {nodes.after:,} nodes"]
    if checked.report.validation is not None:
        how = "validated" if checked.report.validated else "failed validation"
        facts.append(f"{how} on {checked.report.validation.provider}")
    mark, role, said = ("+", "good", "passed") if checked.passed else ("!", "bad", counted(failed, "failure"))
    return f"{style(mark, role)} {printable(checked.path)}: {style(said, role)}, {', '.join(facts)}"
