"""``onnxfuse optimize``: the options and their help; the work is in :mod:`onnxfuse.cli.run`."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

import click

from onnxfuse.cli.config import config_options
from onnxfuse.cli.help import CONTEXT, GroupedCommand, GroupedOption
from onnxfuse.cli.params import OpsetType, ReportTarget, ReportType, ToleranceType, split_commas

F = TypeVar("F", bound=Callable[..., Any])


def _group(title: str) -> Callable[..., Callable[[F], F]]:
    return partial(click.option, cls=GroupedOption, group=title)


_output = _group("Output options")
_rules = _group("Rule options")
_proof = _group("Validation options")
_report = _group("Report options")
_common = partial(click.option, cls=GroupedOption)


@click.command(
    "optimize",
    cls=GroupedCommand,
    context_settings=CONTEXT,
    examples=(
        "onnxfuse optimize model.onnx",
        "onnxfuse optimize models/ -o fused/ --report json:fused.json",
    ),
    arguments=(
        (
            "MODEL...",
            "ONNX files, or folders: a folder stands for the .onnx files that lie in it, not in its subfolders; "
            "hidden files and *.opt.onnx are not taken.",
        ),
    ),
)
@click.argument("models", metavar="MODEL...", nargs=-1, required=True, type=click.Path())
@_output(
    "-o",
    "--output",
    metavar="FILE|DIR",
    help="Where the result goes. Several models or a folder need a DIR (created if missing), in which each keeps its "
    "name.  [default: MODEL's stem + .opt.onnx, beside it]",
)
@_output("--in-place", is_flag=True, help="Replace the model itself by the result.")
@_output("--dry-run", is_flag=True, help="Do everything but write the model.")
@_rules(
    "--select",
    metavar="RULE|GLOB",
    multiple=True,
    help="Use only these rules; repeat it, or separate with commas.  [default: all]",
)
@_rules("--ignore", metavar="RULE|GLOB", multiple=True, help="Do not use these rules; stronger than --select.")
@_rules("--rules", metavar="PATH", multiple=True, help="Also use the rules of this file or folder; may be repeated.")
@_rules(
    "--verify-rules/--no-verify-rules",
    default=True,
    help="Prove the rules of --rules before they are applied; what was proven is remembered.  [default: verify-rules]",
)
@_rules(
    "--opset",
    metavar="auto|keep|N",
    type=OpsetType(),
    default="auto",
    show_default=True,
    help="Raise the model to the lowest opset that the fusions found need (auto), never (keep), or to N.",
)
@_proof(
    "--validate/--no-validate",
    default=True,
    show_default=True,
    help="Run the original and the result on onnxruntime, with its own optimizations off and on, and compare.",
)
@_proof(
    "--provider",
    type=click.Choice(["auto", "cuda", "cpu"]),
    default="auto",
    show_default=True,
    help="Execution provider to validate on; auto is CUDA where it runs, else the CPU.",
)
@_proof(
    "--on-mismatch",
    type=click.Choice(["undo", "fail"]),
    default="undo",
    show_default=True,
    help="Where the result differs: find the fusions at fault, leave them out and keep the rest (undo), or name them "
    "and write nothing (fail).",
)
@_proof("--rtol", type=ToleranceType(), metavar="NUMBER", help="Relative tolerance.  [default: by data type]")
@_proof("--atol", type=ToleranceType(), metavar="NUMBER", help="Absolute tolerance.  [default: by data type]")
@_proof(
    "--seed",
    type=click.IntRange(min=0),
    metavar="N",
    default=0,
    show_default=True,
    help="Seed of the random inputs.",
)
@_report(
    "--report",
    "reports",
    type=ReportType(),
    metavar="FORMAT:FILE",
    multiple=True,
    help="Write a report as text or json; FILE may be - for stdout, in place of the text that goes there; may be "
    "repeated.",
)
@config_options
@_common("-q", "--quiet", count=True, help="Show the verdict only.")
@_common("-v", "--verbose", count=True, help="Show every fusion, near miss and validation run, and tracebacks of bugs.")
@_common(
    "--color",
    type=click.Choice(["auto", "always", "never"]),
    default="auto",
    show_default=True,
    help="Colour the output; auto obeys NO_COLOR and FORCE_COLOR, then colours on a terminal.",
)
@_common("--progress/--no-progress", default=True, help="Draw a bar on a terminal while a phase takes over a second.")
def command(
    models: tuple[str, ...],
    output: str | None,
    in_place: bool,
    reports: tuple[ReportTarget, ...],
    quiet: int,
    verbose: int,
    color: str,
    progress: bool,
    select: tuple[str, ...],
    ignore: tuple[str, ...],
    **settings: Any,
) -> int:
    """Fuse operators of ONNX models by rules, prove on onnxruntime that the result computes the same, and write it."""
    from onnxfuse.cli.console import Console
    from onnxfuse.cli.jobs import plan
    from onnxfuse.cli.run import Session, run

    console = Console(color, verbosity=min(verbose, 1) - min(quiet, 1))
    settings.update(select=split_commas(select), ignore=split_commas(ignore), in_place=in_place)
    session = Session(console, tuple(reports), progress, settings)
    return run(plan(models, output, in_place), session)
