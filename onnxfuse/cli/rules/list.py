"""``onnxfuse rules list``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from onnxfuse.cli.help import CONTEXT, GroupedCommand
from onnxfuse.cli.rules.common import color_option, option, place, read_rules, rules_option

if TYPE_CHECKING:
    from onnxfuse.rulebook.rule import Rule


@click.command(
    "list",
    cls=GroupedCommand,
    context_settings=CONTEXT,
    examples=("onnxfuse rules list", "onnxfuse rules list --rules my-rules/ --format json"),
)
@rules_option
@option(
    "--format",
    "format_",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="A table, or JSON for programs.",
)
@color_option
def command(rules: tuple[str, ...], format_: str, color: str) -> int:
    """List all rules in the order in which they are tried: name, safety, status, opsets, types, summary."""
    from onnxfuse.cli.console import Console
    from onnxfuse.report.rules.listing import table, to_json

    book = read_rules(rules)
    console = Console(color, verbosity=0)
    as_json = format_ == "json"
    console.result(to_json(book.rules, _place) if as_json else table(book.rules, console.style))
    return 2 if console.lost_output else 0


def _place(rule: Rule) -> str | None:
    return place(rule.path)
