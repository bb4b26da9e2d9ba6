"""``onnxfuse explain``."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import click

from onnxfuse.cli.help import CONTEXT, GroupedCommand, GroupedOption
from onnxfuse.cli.params import OpsetType, split_commas
from onnxfuse.cli.rules.common import color_option, complete_rule_names

_asked = partial(click.option, cls=GroupedOption, group="What to explain")
_rules = partial(click.option, cls=GroupedOption, group="Rule options")
_common = partial(click.option, cls=GroupedOption)


@click.command(
    "explain",
    cls=GroupedCommand,
    context_settings=CONTEXT,
    examples=(
        "onnxfuse explain model.onnx",
        "onnxfuse explain model.onnx --rule 'layernorm*' --node /encoder/norm/Add_1",
    ),
    arguments=(("MODEL", "An ONNX file."),),
)
@click.argument("model", metavar="MODEL", type=click.Path())
@_asked(
    "--rule",
    "rule",
    metavar="RULE|GLOB",
    multiple=True,
    shell_complete=complete_rule_names,
    help="Tell about these rules, however far away they are; may be repeated.  [default: all, where they are near]",
)
@_asked("--node", metavar="NAME", default="", help="Tell about this node, or the node that gives this value.")
@_rules("--rules", metavar="PATH", multiple=True, help="Also use the rules of this file or folder; may be repeated.")
@_rules("--select", metavar="RULE|GLOB", multiple=True, help="Use only these rules.  [default: all]")
@_rules("--ignore", metavar="RULE|GLOB", multiple=True, help="Do not use these rules; stronger than --select.")
@_rules(
    "--opset",
    metavar="auto|keep|N",
    type=OpsetType(),
    default="auto",
    show_default=True,
    help="As for optimize: raise the opset as fusions need it (auto), never (keep), or to N.",
)
@_common(
    "--format",
    "-f",
    "form",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="What to print.",
)
@_common("-v", "--verbose", count=True, help="List every place and every fusion, and tracebacks of bugs.")
@color_option
@_common("--progress/--no-progress", default=True, help="Draw a bar on a terminal while it takes over a second.")
def command(
    model: str,
    rule: tuple[str, ...],
    node: str,
    rules: tuple[str, ...],
    select: tuple[str, ...],
    ignore: tuple[str, ...],
    opset: str | int,
    form: str,
    verbose: int,
    color: str,
    progress: bool,
) -> int:
    """Say why rules were not applied in a model: how much of each was there, where it stopped, and at what."""
    from onnxfuse.cli.console import Console
    from onnxfuse.cli.progress import ProgressBar
    from onnxfuse.explaining import explain
    from onnxfuse.report.explanation import render

    console = Console(color, verbosity=min(verbose, 1))
    with ProgressBar(Path(model).name, console, progress) as bar:
        found = explain(
            model,
            rule=split_commas(rule),
            node=node,
            rules=rules,
            select=split_commas(select),
            ignore=split_commas(ignore),
            opset=opset,
            progress=bar,
        )
    text = found.to_json() if form == "json" else render(found, every=verbose > 0, style=console.style)
    console.result(text)
    return 2 if console.lost_output else 0
