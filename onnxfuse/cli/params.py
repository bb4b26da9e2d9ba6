"""What option values look like, and what is said of a wrong one."""

from __future__ import annotations

import math
from collections.abc import Sequence
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, NamedTuple

import click

# The names of onnxfuse.report.FORMATS, which is not imported for --help; a test holds the two together.
REPORT_FORMATS = ("text", "json")

STDOUT = "-"


if TYPE_CHECKING:
    ParamType = click.ParamType[Any]
else:  # not generic before click 8.5
    ParamType = click.ParamType


class ReportTarget(NamedTuple):
    """One ``--report``: which format, and to which file (``-`` is stdout)."""

    format: str
    file: str


class ReportType(ParamType):
    """``FORMAT:FILE``, split at the first colon."""

    name = "format:file"

    def __init__(self, formats: Sequence[str] = REPORT_FORMATS) -> None:
        self._formats = tuple(formats)

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> ReportTarget:
        if isinstance(value, ReportTarget):
            return value
        name, colon, file = str(value).partition(":")
        if not colon or not file:
            self.fail(f"{value!r} is not FORMAT:FILE, for example json:report.json.", param, ctx)
        if name not in self._formats:
            self.fail(f"unknown report format {name!r}{suggestion(name, self._formats)}", param, ctx)
        return ReportTarget(name, file)


class OpsetType(ParamType):
    """``auto``, ``keep`` or the number of an opset."""

    name = "opset"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> str | int:
        if isinstance(value, int):
            return value
        text = str(value)
        if text in ("auto", "keep"):
            return text
        if text.isascii() and text.isdigit() and int(text) > 0:
            return int(text)
        self.fail(f"{text!r} is neither 'auto' nor 'keep' nor an opset number.", param, ctx)


class ToleranceType(ParamType):
    """A finite number that is not negative."""

    name = "number"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> float:
        try:
            number = float(str(value))
        except ValueError:
            self.fail(f"{value!r} is not a number, for example 1e-4.", param, ctx)
        if not math.isfinite(number) or number < 0:
            self.fail(f"{value} is not a tolerance: give a finite number, 0 or more.", param, ctx)
        return number


class CountType(ParamType):
    """``NAME:N``, split at the last colon."""

    name = "name:n"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, int]:
        if isinstance(value, tuple):
            return value
        name, colon, count = str(value).rpartition(":")
        if not colon or not name or not count.isascii() or not count.isdigit():
            self.fail(f"{value!r} is not RULE:N, for example layernorm:25.", param, ctx)
        return name, int(count)


def suggestion(wrong: str, right: Sequence[str]) -> str:
    """``, did you mean 'json'?`` where something is near, else what there is to choose from."""
    near = get_close_matches(wrong.lower(), right, n=1)
    if near:
        return f", did you mean {near[0]!r}?"
    return "; there are " + ", ".join(right)


def split_commas(values: Sequence[str]) -> tuple[str, ...]:
    """Repeated options may also be given as one list with commas."""
    return tuple(part.strip() for value in values for part in value.split(",") if part.strip())
