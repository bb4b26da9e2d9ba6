"""What the README says is so. ONNXFUSE_BLESS=1 writes its generated blocks anew; then read the difference."""

from __future__ import annotations

import os
import re
import shutil
import tomllib
from pathlib import Path

import pytest

import onnxfuse
from onnxfuse.cli.main import main
from onnxfuse.rewrite.steps import STEPS

ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"


def readme() -> str:
    return README.read_text(encoding="utf-8")


def check_block(name: str, expected: str) -> None:
    """Compare what stands between the two markers of a block."""
    begin, end = f"<!-- begin: {name} -->\n", f"<!-- end: {name} -->\n"
    before, _, rest = readme().partition(begin)
    found, _, after = rest.partition(end)
    if os.environ.get("ONNXFUSE_BLESS"):
        README.write_text(before + begin + expected + end + after, encoding="utf-8", newline="\n")
    else:
        assert found == expected


def test_rules_table_is_the_rules_folder() -> None:
    files = sorted(path for path in (ROOT / "rules").rglob("*.toml") if path.name != "forms.toml")
    summaries = {path.stem: tomllib.loads(path.read_text(encoding="utf-8"))["summary"] for path in files} | STEPS
    rows = [f"| `{name}` | {summary} |\n" for name, summary in summaries.items()]
    check_block("rules", "| rule | what it does |\n| --- | --- |\n" + "".join(rows))


def test_first_command_prints_what_is_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The lines after these, on validation, depend on the machine."""
    command = re.search(r"onnxfuse optimize (models/\S+) -o (\S+)\n", readme())
    assert command
    monkeypatch.chdir(ROOT)
    assert main(["optimize", command[1], "-o", str(tmp_path / command[2]), "--no-validate", "--color", "never"]) == 0
    report, _, _ = capsys.readouterr().out.rpartition("\n+ ")
    lines = [line for line in report.splitlines() if "not validated" not in line]
    check_block("report", "```text\n" + "\n".join(lines) + "\n```\n")


def test_python_example_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    example = re.search(r"```python\n(.+?)```", readme(), re.S)
    assert example
    shutil.copy(ROOT / "models" / "cnn.onnx", tmp_path / "model.onnx")
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    exec(example[1], names)
    assert isinstance(names["result"], onnxfuse.Result)
    assert names["result"].fusions
    assert (tmp_path / "fused.onnx").stat().st_size


def test_options_exist() -> None:
    from onnxfuse.cli.optimize import command

    options = {name for parameter in command.params for name in (*parameter.opts, *parameter.secondary_opts)}
    named = set(re.findall(r"(?<![\w-])--?[a-z][a-z-]*", " ".join(re.findall(r"onnxfuse optimize [^#\n`]*", readme()))))
    assert named
    assert named <= options | {"--help"}


def test_exit_codes_are_those_of_the_errors() -> None:
    table = {int(code) for code in re.findall(r"^\| (\d+) \| ", readme(), re.M)}
    errors = [getattr(onnxfuse, name) for name in onnxfuse.__all__ if name.endswith("Error")]
    assert {error.exit_code for error in errors} | {0, 130} == table


@pytest.mark.parametrize("page", ["README.md", "CONTRIBUTING.md", "models/README.md"])
def test_local_links_lead_somewhere(page: str) -> None:
    path = ROOT / page
    for link in re.findall(r"\]\((?!https?:|#)([^)#]+)", path.read_text(encoding="utf-8")):
        assert (path.parent / link).exists(), link
