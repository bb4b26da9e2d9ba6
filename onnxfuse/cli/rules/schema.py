"""``onnxfuse rules schema``."""

from __future__ import annotations

import click

from onnxfuse.cli.help import CONTEXT, GroupedCommand
from onnxfuse.cli.rules.common import option


@click.command(
    "schema",
    cls=GroupedCommand,
    context_settings=CONTEXT,
    examples=("onnxfuse rules schema > rule.schema.json", "onnxfuse rules schema --forms > forms.schema.json"),
)
@option("--forms", is_flag=True, help="The schema of forms.toml in place of that of a rule.")
def command(forms: bool) -> int:
    """Print the JSON Schema (draft 2020-12) of rule files: with it, editors complete and check TOML."""
    import json

    from onnxfuse.rulebook.syntax.schema import forms_schema, rule_schema

    click.echo(json.dumps(forms_schema() if forms else rule_schema(), indent=2))
    return 0
