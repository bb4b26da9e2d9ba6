"""``onnxfuse check``: the gate for CI."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from onnxfuse.cli.config import config_options
from onnxfuse.cli.help import CONTEXT, GroupedCommand, GroupedOption
from onnxfuse.cli.params import CountType, OpsetType, ToleranceType, split_commas
from onnxfuse.cli.rules.common import color_option

if TYPE_CHECKING:
    from onnxfuse.cli.console import Console
    from onnxfuse.gate import Policy
    from onnxfuse.report.findings import Checked

# The names and defaults of onnxfuse.gate, which is not imported for --help; a test holds them together.
_KINDS = ("mismatch", "undone", "missed", "drift", "regression", "budget")
_FAIL_ON = ("mismatch", "drift", "regression", "budget")

_gate = partial(click.option, cls=GroupedOption, group="Gate options")
_rules = partial(click.option, cls=GroupedOption, group="Rule options")
_proof = partial(click.option, cls=GroupedOption, group="Validation options")
_common = partial(click.option, cls=GroupedOption)


@click.command(
    "check",
    cls=GroupedCommand,
    context_settings=CONTEXT,
    examples=(
        "onnxfuse check model.onnx --baseline fused.json",
        "onnxfuse check models/ --forbid-op BatchNormalization --max-nodes 150",
    ),
    arguments=(("MODEL...", "ONNX files, or folders of them.  [default: the models of the configuration file]"),),
)
@click.argument("models", metavar="[MODEL]...", nargs=-1, type=click.Path())
@_gate(
    "--fail-on",
    metavar="KIND",
    multiple=True,
    help=f"Say no to these kinds of findings, of {', '.join(_KINDS)}; repeat it, or separate with commas.  "
    f"[default: {','.join(_FAIL_ON)}]",
)
@_gate("--expect", metavar="FILE", help="The committed result: anything else that comes out now is drift.")
@_gate("--baseline", metavar="FILE", help="JSON report of an earlier run: less fused, or more nodes, is a regression.")
@_gate("--max-nodes", metavar="N", type=click.IntRange(min=0), help="Most nodes that the result may have.")
@_gate(
    "--min-fused", metavar="RULE:N", type=CountType(), multiple=True, help="Least times that a rule must be applied."
)
@_gate("--require", metavar="RULE", multiple=True, help="A rule that must be applied; a glob stands for any of them.")
@_gate("--forbid-op", metavar="OP", multiple=True, help="An operator that the result must not have.")
@_gate("--exit-zero", is_flag=True, help="Say what was found, and exit with 0 all the same.")
@_rules("--rules", metavar="PATH", multiple=True, help="Also use the rules of this file or folder; may be repeated.")
@_rules("--select", metavar="RULE|GLOB", multiple=True, help="Use only these rules.  [default: all]")
@_rules("--ignore", metavar="RULE|GLOB", multiple=True, help="Do not use these rules; stronger than --select.")
@_rules("--opset", metavar="auto|keep|N", type=OpsetType(), default="auto", show_default=True, help="As for optimize.")
@_proof("--validate/--no-validate", default=True, show_default=True, help="Run original and result, and compare.")
@_proof(
    "--provider",
    type=click.Choice(["auto", "cuda", "cpu"]),
    default="auto",
    show_default=True,
    help="Execution provider to validate on.",
)
@_proof("--rtol", type=ToleranceType(), metavar="NUMBER", help="Relative tolerance.  [default: by data type]")
@_proof("--atol", type=ToleranceType(), metavar="NUMBER", help="Absolute tolerance.  [default: by data type]")
@_proof("--seed", type=click.IntRange(min=0), metavar="N", default=0, show_default=True, help="Seed of the inputs.")
@config_options
@_common("--format", "-f", "form", type=click.Choice(["text", "json"]), default="text", show_default=True,
         help="What to print.")  # fmt: skip
@_common("-q", "--quiet", count=True, help="Show failures and verdicts only.")
@_common("-v", "--verbose", count=True, help="Show tracebacks of bugs.")
@color_option
@_common("--progress/--no-progress", default=True, help="Draw a bar on a terminal while it takes over a second.")
@click.pass_context
def command(
    ctx: click.Context,
    /,
    models: tuple[str, ...],
    fail_on: tuple[str, ...],
    exit_zero: bool,
    form: str,
    quiet: int,
    verbose: int,
    color: str,
    progress: bool,
    **settings: Any,
) -> int:
    """Optimize models without writing anything, and say no where the result is not as it must be."""
    from onnxfuse.cli.console import Console
    from onnxfuse.cli.jobs import expand

    console = Console(color, verbosity=min(verbose, 1) - min(quiet, 1))
    kinds = _kinds(split_commas(fail_on) or _FAIL_ON)
    settings.update({name: split_commas(settings[name]) for name in ("select", "ignore", "require", "forbid_op")})
    given = ctx.meta.get("onnxfuse.models", {})
    paths, failures = expand(models or list(given))
    if not models and not given:
        raise click.UsageError("Give a MODEL, or name models in the configuration file.", ctx)
    if len(paths) > 1 and settings["expect"]:
        raise click.UsageError("--expect is the result of one model: give one MODEL.", ctx)
    code = max([0, *(_say(console, path, error) for path, error in failures)])
    checked: list[Checked] = []
    for path in paths:
        mine = {**settings, **given.get(str(path), {})}
        try:
            checked.append(_check(path, _policy(path, kinds, mine), mine, console, progress))
        except Exception as error:
            code = max(code, _say(console, str(path), error))
    _show(checked, form, console)
    if code == 0 and not exit_zero and not all(one.passed for one in checked):
        code = 1
    return 2 if console.lost_output else code


def _kinds(names: Sequence[str]) -> frozenset[str]:
    from onnxfuse.cli.params import suggestion
    from onnxfuse.errors import UsageError

    for name in names:
        if name not in _KINDS:
            raise UsageError(f"--fail-on: there is no kind {name!r}{suggestion(name, _KINDS)}")
    return frozenset(names)


def _policy(path: Path, kinds: frozenset[str], settings: dict[str, Any]) -> Policy:
    """Take the gate's part out of the settings."""
    from onnxfuse.gate import Baseline, Policy

    expect, baseline = settings.pop("expect"), settings.pop("baseline")
    return Policy(
        fail_on=kinds,
        max_nodes=settings.pop("max_nodes"),
        min_fused=dict(settings.pop("min_fused")),
        require=settings.pop("require"),
        forbid_ops=settings.pop("forbid_op"),
        expect=Path(expect) if expect else None,
        baseline=Baseline.read(Path(baseline), path) if baseline else None,
    )


def _check(path: Path, policy: Policy, settings: dict[str, Any], console: Console, progress: bool) -> Checked:
    from onnxfuse.checking import check
    from onnxfuse.cli.progress import ProgressBar

    with ProgressBar(path.name, console, progress) as bar:
        return check(path, policy=policy, progress=bar, **settings)


def _say(console: Console, path: str, error: Exception) -> int:
    """Say on stderr what went wrong with a model, and return the exit code of it."""
    from onnxfuse.cli.run import say_error

    return say_error(path, error, console)[1]


def _show(checked: Sequence[Checked], form: str, console: Console) -> None:
    from onnxfuse.report.findings import render, to_json

    if form == "json":
        console.result(to_json(checked))
    else:
        console.result("".join(render(one, verbosity=console.verbosity, style=console.style) for one in checked))
