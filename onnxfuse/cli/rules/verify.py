"""``onnxfuse rules verify``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from onnxfuse.cli.help import CONTEXT, GroupedCommand
from onnxfuse.cli.params import STDOUT, ReportTarget, ReportType, split_commas
from onnxfuse.cli.rules.common import color_option, option, place, read_rules, rules_option

if TYPE_CHECKING:
    from onnxfuse.cli.console import Console
    from onnxfuse.prove import Verification
    from onnxfuse.rulebook.checks.finding import Finding
    from onnxfuse.rulebook.rule import Rulebook

_FORMATS = ("json", "junit")


@click.command(
    "verify",
    cls=GroupedCommand,
    context_settings=CONTEXT,
    examples=("onnxfuse rules verify", "onnxfuse rules verify my-rules/ --report junit:rules.xml"),
    arguments=(
        ("PATH...", "Rule files, or folders of them, whose rules are verified.  [default: the built-in rules]"),
    ),
)
@click.argument("paths", metavar="[PATH]...", nargs=-1, type=click.Path())
@rules_option
@option("--select", metavar="RULE|GLOB", multiple=True, help="Of these rules, verify only those named so.")
@option("--jobs", "-j", type=click.IntRange(min=1), metavar="N", help="Processes.  [default: one for each core]")
@option("--seed", type=click.IntRange(min=0), metavar="N", default=0, show_default=True, help="Seed of the test data.")
@option(
    "--report",
    "reports",
    type=ReportType(_FORMATS),
    metavar="FORMAT:FILE",
    multiple=True,
    help="Write the findings as json or junit; FILE may be - for stdout, in place of the text; may be repeated.",
)
@option("-q", "--quiet", count=True, help="Show the verdict only.")
@option("-v", "--verbose", count=True, help="Show every problem, every form, and why cases did not run.")
@color_option
@option("--progress/--no-progress", default=True, help="Draw a bar on a terminal while it takes over a second.")
def command(
    paths: tuple[str, ...],
    rules: tuple[str, ...],
    select: tuple[str, ...],
    jobs: int | None,
    seed: int,
    reports: tuple[ReportTarget, ...],
    quiet: int,
    verbose: int,
    color: str,
    progress: bool,
) -> int:
    """Run both sides of rules on onnxruntime, and the engine on what must match and what must not; 1 if one fails."""
    from onnxfuse.cli.console import Console
    from onnxfuse.cli.files import check_targets
    from onnxfuse.cli.progress import ProgressBar
    from onnxfuse.prove import verify
    from onnxfuse.rulebook.checks.lint import lint

    console = Console(color, verbosity=min(verbose, 1) - min(quiet, 1))
    book = read_rules((*rules, *paths))
    names = _chosen(book, paths, split_commas(select))
    check_targets(reports, [rule.path for rule in book.rules])
    with ProgressBar("rules", console, progress) as bar:
        found = verify(book, names=names, jobs=jobs, seed=seed, progress=bar)
    _report(found, lint(book, names), reports, console)
    return 2 if console.lost_output else 0 if found.ok else 1


def _chosen(book: Rulebook, paths: Sequence[str], select: Sequence[str]) -> list[str]:
    """The names of the rules that lie under ``paths`` (none: all) and that ``select`` names (none: all)."""
    from onnxfuse.errors import UsageError
    from onnxfuse.rulebook.select import selected

    places = [Path(path) for path in paths]
    mine = [rule.name for rule in book.rules if not paths or any(rule.path.is_relative_to(place) for place in places)]
    if not mine:
        raise UsageError(f"there is no rule in {', '.join(paths)}: give rule files, or folders of them")
    chosen = selected(mine, select, ())
    return [name for name in mine if name in chosen]


def _report(found: Verification, lint: Sequence[Finding], reports: Sequence[ReportTarget], console: Console) -> None:
    from onnxfuse.cli.files import write_text
    from onnxfuse.report.rules.verification import text, to_json, to_junit

    writers = {"json": to_json, "junit": to_junit}
    if all(target.file != STDOUT for target in reports):
        console.result(text(found, lint, verbosity=console.verbosity, style=console.style))
    for target in reports:
        document = writers[target.format](found, lint, lambda proof: place(proof.path))
        if target.file == STDOUT:
            console.result(document)
        else:
            write_text(target.file, document)
