"""``onnxfuse rules show``."""

from __future__ import annotations

import sys

import click

from onnxfuse.cli.help import CONTEXT, GroupedCommand
from onnxfuse.cli.rules.common import color_option, complete_rule_names, option, place, read_rules, rules_option


@click.command(
    "show",
    cls=GroupedCommand,
    context_settings=CONTEXT,
    examples=("onnxfuse rules show conv-batchnorm", "onnxfuse rules show layernorm --forms"),
    arguments=(("NAME", "The name of a rule, as `onnxfuse rules list` has it."),),
)
@click.argument("name", metavar="NAME", shell_complete=complete_rule_names)
@rules_option
@option("--forms", is_flag=True, help="Draw every spelling of the forms that the rule calls, too.")
@color_option
def command(name: str, rules: tuple[str, ...], forms: bool, color: str) -> int:
    """Draw what a rule looks for and what it puts in place, and say in words when it applies."""
    from onnxfuse.cli.console import Console
    from onnxfuse.errors import UsageError
    from onnxfuse.report.rules.drawing import ASCII, UNICODE
    from onnxfuse.report.rules.show import render
    from onnxfuse.rulebook.syntax.kinds import suggestion

    book = read_rules(rules)
    known = {rule.name: rule for rule in book.rules}
    if name not in known:
        raise UsageError(f"no rule is called '{name}'{suggestion(name, known)} (`onnxfuse rules list` names all)")
    rule, console = known[name], Console(color, verbosity=0)
    origin, strokes = place(rule.path) or "built in", UNICODE if _draws_boxes() else ASCII
    console.result(render(rule, book, origin, forms=forms, strokes=strokes, style=console.style))
    return 2 if console.lost_output else 0


def _draws_boxes() -> bool:
    """Whether stdout can take the characters of drawings."""
    try:
        "├└│─↑".encode(getattr(sys.stdout, "encoding", None) or "ascii")
    except (UnicodeEncodeError, LookupError):
        return False
    return True
