"""``onnxfuse rules docs``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from onnxfuse.cli.help import CONTEXT, GroupedCommand
from onnxfuse.cli.rules.common import option, place, read_rules, rules_option

if TYPE_CHECKING:
    from onnxfuse.rulebook.rule import Rule


@click.command(
    "docs",
    cls=GroupedCommand,
    context_settings=CONTEXT,
    examples=("onnxfuse rules docs", "onnxfuse rules docs --rules my-rules/ --output site/rules"),
)
@rules_option
@option(
    "--output",
    "-o",
    metavar="DIR",
    default="docs/rules",
    show_default=True,
    help="Where the pages go; created if missing.",
)
def command(rules: tuple[str, ...], output: str) -> int:
    """Write a Markdown page for each rule, with diagrams in Mermaid, one for the forms, and an index."""
    from onnxfuse.cli.files import write_text
    from onnxfuse.errors import OutputError
    from onnxfuse.report.rules.page import pages

    folder, found = Path(output), pages(read_rules(rules), _place)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OutputError(f"{folder}: cannot create the folder: {error.strerror or error}") from error
    for name, text in found.items():
        write_text(str(folder / name), text)
    click.echo(f"{len(found)} pages in {folder}")
    return 0


def _place(rule: Rule) -> str:
    from onnxfuse.rulebook.library import builtin_rules_dir

    return place(rule.path) or f"rules/{rule.path.relative_to(builtin_rules_dir()).as_posix()}"
