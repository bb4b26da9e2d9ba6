"""What was taken back, as lines of text: the fusion, and the value that was wrong because of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from onnxfuse.report.fusion_lines import sides
from onnxfuse.report.validation_lines import measure

if TYPE_CHECKING:
    from collections.abc import Iterable

    from onnxfuse.report.wording import Style
    from onnxfuse.validate.result import Undone


def undone_lines(undone: Iterable[Undone], style: Style) -> list[str]:
    """Two lines for each fusion that was taken back; one where no wrong value of it could be shown."""
    return [line for one in undone for line in _lines(one, style)]


def _lines(undone: Undone, style: Style) -> list[str]:
    fusion, check = undone.fusion, undone.check
    head = f"{style('!', 'bad')} undone {style(fusion.rule, 'bad')}  {sides(fusion)}"
    return [head] if check is None else [head, f"    since {measure(check)}"]
