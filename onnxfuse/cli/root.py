"""The ``onnxfuse`` command; its subcommands are loaded when they are called, not before."""

from __future__ import annotations

import click

from onnxfuse.cli.help import CONTEXT, GroupedOption
from onnxfuse.cli.lazy import Lazy, LazyGroup

_COMMANDS = {
    "optimize": Lazy("onnxfuse.cli.optimize", "Fuse operators, prove the result, write the model."),
    "check": Lazy("onnxfuse.cli.check", "The gate for CI: say no where a result is not as it must be."),
    "explain": Lazy("onnxfuse.cli.explain", "Say why rules were not applied, the nearest misses first."),
    "rules": Lazy("onnxfuse.cli.rules", "List, show, verify and begin rules."),
}


class _Root(LazyGroup):
    """The commands; a model in the place of one gets the hint that its user needs."""

    def hint(self, name: str) -> str:
        if name.endswith(".onnx"):
            return f", did you mean 'onnxfuse optimize {name}'?"
        return super().hint(name)


def _show_version(ctx: click.Context, param: click.Parameter, value: bool) -> None:
    if not value or ctx.resilient_parsing:
        return
    import onnxfuse

    click.echo(f"onnxfuse {onnxfuse.__version__}")
    ctx.exit()


@click.group(
    cls=_Root,
    commands=_COMMANDS,
    examples=("onnxfuse optimize model.onnx", "onnxfuse optimize --help"),
    context_settings=CONTEXT,
    no_args_is_help=False,
)
@click.option(
    "-V",
    "--version",
    cls=GroupedOption,
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_show_version,
    help="Show the version and exit.",
)
def root() -> None:
    """Fuse the operators of ONNX models by rules, and prove the result on onnxruntime."""
