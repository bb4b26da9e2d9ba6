"""The ``onnxfuse`` command; its subcommands are loaded when they are called, not before."""

from __future__ import annotations

from importlib import import_module
from typing import NamedTuple

import click

from onnxfuse.cli.help import CONTEXT, EXIT_CODES, GroupedOption, write_rows
from onnxfuse.cli.params import suggestion


class _Lazy(NamedTuple):
    module: str  # holds the click command, under the name ``command``
    short_help: str


_COMMANDS = {
    "optimize": _Lazy("onnxfuse.cli.optimize", "Fuse operators, prove the result, write the model."),
}


class LazyGroup(click.Group):
    """A group that knows its commands by name and imports a command's module only to run it."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            return None
        command = import_module(_COMMANDS[cmd_name].module).command
        assert isinstance(command, click.Command)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        if name not in _COMMANDS:
            ctx.fail(f"no command {name!r}" + _hint(name))
        return name, self.get_command(ctx, name), args[1:]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        write_rows(formatter, "Commands", [(name, lazy.short_help) for name, lazy in _COMMANDS.items()])

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        write_rows(formatter, "Examples", [("onnxfuse optimize model.onnx", ""), ("onnxfuse optimize --help", "")])
        write_rows(formatter, "Exit codes", EXIT_CODES)


def _hint(name: str) -> str:
    if name.endswith(".onnx"):
        return f", did you mean 'onnxfuse optimize {name}'?"
    return suggestion(name, tuple(_COMMANDS))


def _show_version(ctx: click.Context, param: click.Parameter, value: bool) -> None:
    if not value or ctx.resilient_parsing:
        return
    import onnxfuse

    click.echo(f"onnxfuse {onnxfuse.__version__}")
    ctx.exit()


@click.group(cls=LazyGroup, context_settings=CONTEXT, no_args_is_help=False)
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
