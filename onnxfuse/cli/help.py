"""Help pages: a sentence, examples, options in groups, exit codes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click

CONTEXT = {"help_option_names": ["-h", "--help"], "max_content_width": 100}

EXIT_CODES = [
    ("0", "done, also when nothing matched"),
    ("1", "the gate says no: the result differs from the original, a check fails, or the original does not run"),
    ("2", "wrong use or unusable input"),
    ("3", "a bug in onnxfuse"),
    ("130", "interrupted"),
]

_LAST_GROUP = "Common options"


class GroupedOption(click.Option):
    """An option that is listed in the help page under ``group``."""

    def __init__(self, *args: Any, group: str = _LAST_GROUP, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.group = group
        if self.envvar is None and not self.is_eager:
            self.envvar = f"ONNXFUSE_{str(self.name).upper()}"


class GroupedCommand(click.Command):
    """A command whose help page has ``examples``, ``arguments``, options in groups and the exit codes."""

    def __init__(
        self,
        *args: Any,
        examples: Sequence[str] = (),
        arguments: Sequence[tuple[str, str]] = (),
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, **kwargs)
        self.examples = examples
        self.arguments = arguments

    def format_help_text(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        super().format_help_text(ctx, formatter)
        write_rows(formatter, "Examples", [(line, "") for line in self.examples])

    def format_arguments(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Nothing: ``format_options`` lists the arguments, in every version of click alike."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        write_rows(formatter, "Arguments", self.arguments)
        for title, rows in _grouped(self.get_params(ctx), ctx).items():
            write_rows(formatter, title, rows)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        write_rows(formatter, "Exit codes", EXIT_CODES)


def write_rows(formatter: click.HelpFormatter, title: str, rows: Sequence[tuple[str, str]]) -> None:
    """Write a titled list of (term, explanation); no rows, no title."""
    if not rows:
        return
    with formatter.section(title):
        formatter.write_dl(rows)


def _grouped(params: Sequence[click.Parameter], ctx: click.Context) -> dict[str, list[tuple[str, str]]]:
    """Help records by group, in order of first appearance, the common options last."""
    groups: dict[str, list[tuple[str, str]]] = {}
    for param in params:
        record = param.get_help_record(ctx) if isinstance(param, click.Option) else None
        if record is not None:
            groups.setdefault(getattr(param, "group", _LAST_GROUP), []).append(record)
    groups[_LAST_GROUP] = groups.pop(_LAST_GROUP, [])
    return groups
