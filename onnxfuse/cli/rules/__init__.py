"""``onnxfuse rules``: the commands about rules; each is a module of this folder."""

from __future__ import annotations

import click

from onnxfuse.cli.help import CONTEXT
from onnxfuse.cli.lazy import Lazy, LazyGroup

_COMMANDS = {
    "list": Lazy("onnxfuse.cli.rules.list", "List all rules."),
    "show": Lazy("onnxfuse.cli.rules.show", "Draw one rule and say when it applies."),
    "verify": Lazy("onnxfuse.cli.rules.verify", "Prove rules by running them; 1 if one fails."),
    "new": Lazy("onnxfuse.cli.rules.new", "Write a rule file to begin with."),
    "schema": Lazy("onnxfuse.cli.rules.schema", "Print the JSON Schema of rule files, for editors."),
    "docs": Lazy("onnxfuse.cli.rules.docs", "Write a Markdown page for each rule."),
}


@click.group(
    "rules",
    cls=LazyGroup,
    commands=_COMMANDS,
    examples=("onnxfuse rules list", "onnxfuse rules show conv-batchnorm", "onnxfuse rules new my-rule"),
    context_settings=CONTEXT,
    no_args_is_help=False,
)
def command() -> None:
    """List, show, verify and begin rules."""
