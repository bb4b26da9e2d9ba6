"""``onnxfuse rules new``."""

from __future__ import annotations

from pathlib import Path

import click

from onnxfuse.cli.help import CONTEXT, GroupedCommand
from onnxfuse.cli.rules.common import option


@click.command(
    "new",
    cls=GroupedCommand,
    context_settings=CONTEXT,
    examples=("onnxfuse rules new my-rule", "onnxfuse rules new softmax-mask --op Softmax --dir my-rules"),
    arguments=(("NAME", "The name of the rule and of its file: lower-case words with hyphens."),),
)
@click.argument("name", metavar="NAME")
@option("--op", metavar="OPERATOR", default="Relu", show_default=True, help="The operator that the rule begins with.")
@option("--dir", "folder", metavar="DIR", default=".", help="Where to write it; created if missing.  [default: here]")
def command(name: str, op: str, folder: str) -> int:
    """Write a rule file that works, with comments on what to change. An existing file is never overwritten."""
    from onnxfuse.errors import OutputError, UsageError
    from onnxfuse.rulebook.library import builtin_rules_dir
    from onnxfuse.rulebook.scaffold import check_name, scaffold

    check_name(name)
    if any(path.stem == name for path in builtin_rules_dir().rglob("*.toml")):
        raise UsageError(f"a built-in rule is called '{name}', and yours would replace it: take another name")
    path, text = Path(folder) / f"{name}.toml", scaffold(op)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("x", encoding="utf-8", newline="\n") as stream:
            stream.write(text)
    except FileExistsError as error:
        raise OutputError(f"{path}: is there already: give another NAME or --dir") from error
    except OSError as error:
        raise OutputError(f"{path}: cannot be written: {error.strerror or error}") from error
    click.echo(f"{path}\n\nChange it, then try it:\n  onnxfuse rules show {name} --rules {path}")
    click.echo(f"  onnxfuse rules verify {path}")
    click.echo(f"  onnxfuse optimize model.onnx --rules {path} --select {name} -v")
    return 0
