"""Groups of commands that are loaded when they are called, not before."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any, NamedTuple

import click

from onnxfuse.cli.help import EXIT_CODES, write_rows
from onnxfuse.cli.params import suggestion


class Lazy(NamedTuple):
    """A command that is not loaded yet."""

    module: str  # holds the click command, under the name ``command``
    short_help: str


class LazyGroup(click.Group):
    """A group that knows its commands by name and imports a command's module only to run it."""

    def __init__(self, *args: Any, commands: Mapping[str, Lazy], examples: Sequence[str] = (), **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._lazy = commands
        self._examples = examples

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self._lazy)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self._lazy:
            return None
        command = import_module(self._lazy[cmd_name].module).command
        assert isinstance(command, click.Command)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        if name not in self._lazy:
            ctx.fail(f"no command {name!r}{self.hint(name)}")
        return name, self.get_command(ctx, name), args[1:]

    def hint(self, name: str) -> str:
        """What to say of an unknown command."""
        return suggestion(name, tuple(self._lazy))

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        write_rows(formatter, "Commands", [(name, lazy.short_help) for name, lazy in self._lazy.items()])

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        write_rows(formatter, "Examples", [(line, "") for line in self._examples])
        write_rows(formatter, "Exit codes", EXIT_CODES)
