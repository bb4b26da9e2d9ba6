"""Report documents: one run of the tool, over one model or several, in a named format."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from onnxfuse.report import strict_json, text
from onnxfuse.report.record import SCHEMA_VERSION
from onnxfuse.report.wording import Style, plain, printable

if TYPE_CHECKING:
    from onnxfuse.report.record import Report


@dataclass(frozen=True)
class Outcome:
    """How it went with one model: a report, an error (one sentence that names the model), or both after a mismatch."""

    path: str
    report: Report | None = None
    error: str | None = None
    exit_code: int = 0


def render_text(outcomes: Sequence[Outcome], several: bool, verbosity: int = 0, style: Style = plain) -> str:
    """One block per model, blank lines between."""
    blank = "\n" if verbosity >= 0 else ""
    return blank.join(text_block(outcome, verbosity, style) for outcome in outcomes)


def text_block(outcome: Outcome, verbosity: int = 0, style: Style = plain) -> str:
    """The text report of one model, or the error in its place."""
    if outcome.report is not None:
        return text.render(outcome.report, verbosity=verbosity, style=style)
    return f"{style('!', 'bad')} {printable(outcome.error or 'failed')}\n"


def render_json(outcomes: Sequence[Outcome], several: bool, verbosity: int = 0, style: Style = plain) -> str:
    """The report itself for one model; for ``several``, an object with ``reports`` and ``errors``."""
    if not several and outcomes and outcomes[0].report is not None:
        return outcomes[0].report.to_json()
    errors = [
        {"path": outcome.path, "message": outcome.error, "exit_code": outcome.exit_code}
        for outcome in outcomes
        if outcome.error is not None
    ]
    reports = [outcome.report.to_dict() for outcome in outcomes if outcome.report is not None]
    return strict_json.dumps({"schema_version": SCHEMA_VERSION, "reports": reports, "errors": errors})


FORMATS: dict[str, Callable[[Sequence[Outcome], bool, int, Style], str]] = {
    "text": render_text,
    "json": render_json,
}
