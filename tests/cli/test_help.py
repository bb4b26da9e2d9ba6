"""Help pages: what they say, what they do not load, and that docs/cli.md shows them as they are."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from onnxfuse.cli.main import main

_DOCS = Path(__file__).parents[2] / "docs" / "cli.md"


def _help(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, *args: str) -> str:
    monkeypatch.setenv("COLUMNS", "100")
    assert main([*args, "--help"]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    return out


_COMMANDS = [
    "onnxfuse", "onnxfuse optimize", "onnxfuse check", "onnxfuse explain",
    "onnxfuse rules", "onnxfuse rules list", "onnxfuse rules show",
    "onnxfuse rules verify", "onnxfuse rules new", "onnxfuse rules schema", "onnxfuse rules docs",
]  # fmt: skip


@pytest.mark.parametrize("command", _COMMANDS)
def test_docs_show_the_help_as_it_is(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    """Run with ONNXFUSE_BLESS=1 to write the help of now into the page."""
    begin, end = f"<!-- begin: {command} --help -->", f"<!-- end: {command} --help -->"
    shown = f"{begin}\n```text\n{_help(capsys, monkeypatch, *command.split()[1:])}```\n{end}"
    page = _DOCS.read_text()
    if os.environ.get("ONNXFUSE_BLESS"):
        page = re.sub(f"{begin}.*?{end}", lambda match: shown, page, flags=re.DOTALL)
        _DOCS.write_text(page)
    assert shown in page


def test_help_has_examples_groups_and_exit_codes(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    titles = re.findall(r"^(\w[\w ]*):$", _help(capsys, monkeypatch, "optimize"), flags=re.MULTILINE)
    assert titles[:2] == ["Examples", "Arguments"]
    assert titles[2:-2] == ["Output options", "Rule options", "Validation options", "Report options"]
    assert titles[-2:] == ["Common options", "Exit codes"]


def test_no_arguments_is_help_on_stderr_and_2(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("Usage: onnxfuse")


@pytest.mark.parametrize("flag", ["-V", "--version"])
def test_version(capsys: pytest.CaptureFixture[str], flag: str) -> None:
    import onnxfuse

    assert main([flag]) == 0
    assert capsys.readouterr().out == f"onnxfuse {onnxfuse.__version__}\n"


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("optimise", "did you mean 'optimize'?"),
        ("net.onnx", "did you mean 'onnxfuse optimize net.onnx'?"),
        ("xyz", "there are optimize"),
    ],
)
def test_unknown_commands_get_a_suggestion(capsys: pytest.CaptureFixture[str], name: str, words: str) -> None:
    assert main([name]) == 2
    assert words in capsys.readouterr().err


@pytest.mark.parametrize("args", ["--help", "--version", *(f"{command[9:]} --help" for command in _COMMANDS[1:])])
def test_start_up_imports_nothing_heavy(args: str) -> None:
    """What costs the time is what is imported; benchmarks/startup.py measures the time itself."""
    code = (
        "import sys; from onnxfuse.cli.main import main; main(sys.argv[1].split());"
        "heavy = {'onnx', 'numpy', 'onnxruntime', 'onnx_graphsurgeon', 'rich', 'onnxfuse.report'} & set(sys.modules);"
        "sys.exit(f'imported: {heavy}' if heavy else 0)"
    )
    done = subprocess.run([sys.executable, "-c", code, args], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_the_module_runs_as_a_command() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "onnxfuse", "--help"], capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 0
    assert done.stdout.startswith("Usage: onnxfuse [OPTIONS]")


def test_completion_script_is_printed() -> None:
    environment = {**os.environ, "_ONNXFUSE_COMPLETE": "zsh_source"}
    done = subprocess.run(
        [sys.executable, "-m", "onnxfuse"], capture_output=True, text=True, check=False, timeout=60, env=environment
    )
    assert done.returncode == 0
    assert "#compdef onnxfuse" in done.stdout
