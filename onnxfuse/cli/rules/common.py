"""What the commands about rules share: their options, and how the rules are read."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from onnxfuse.cli.help import GroupedOption

if TYPE_CHECKING:
    from onnxfuse.rulebook.rule import Rulebook

option = partial(click.option, cls=GroupedOption)

rules_option = option(
    "--rules", metavar="PATH", multiple=True, help="Also take the rules of this file or folder; may be repeated."
)
color_option = option(
    "--color",
    type=click.Choice(["auto", "always", "never"]),
    default="auto",
    show_default=True,
    help="Colour the output; auto obeys NO_COLOR and FORCE_COLOR, then colours on a terminal.",
)


def read_rules(paths: Sequence[str]) -> Rulebook:
    """Read the built-in rules and those under ``paths``."""
    from onnxfuse.rulebook.load import load_rulebook

    return load_rulebook([Path(path) for path in paths])


def place(path: Path) -> str | None:
    """The path of a rule's file as it is shown; None for one that is built in."""
    from onnxfuse.rulebook.library import builtin_rules_dir

    return None if path.is_relative_to(builtin_rules_dir()) else path.as_posix()


def complete_rule_names(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """The built-in rules whose names begin so, for completion in shells."""
    from onnxfuse.rulebook.library import builtin_rules_dir

    stems = (path.stem for path in builtin_rules_dir().rglob("*.toml") if path.name != "forms.toml")
    return sorted(stem for stem in stems if stem.startswith(incomplete))
