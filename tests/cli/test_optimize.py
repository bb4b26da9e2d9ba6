"""``onnxfuse optimize``: what it hands to the pipeline, and what it makes of the answers."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from onnxfuse.cli.main import main
from onnxfuse.errors import (
    EndlessRulesError,
    InputError,
    InternalError,
    OpsetError,
    OriginalFailsError,
    OutputError,
    ProviderError,
    RuleError,
    UsageError,
    ValidationError,
)
from tests.cli.fakes import FakePipeline, failing
from tests.report.samples import mismatch

_DEFAULTS = {
    "in_place": False,
    "validate": True,
    "select": (),
    "ignore": (),
    "rules": (),
    "verify_rules": True,
    "opset": "auto",
    "provider": "auto",
    "rtol": None,
    "atol": None,
    "seed": 0,
    "on_mismatch": "undo",
    "dry_run": False,
}


def _settings(pipeline: FakePipeline, *args: str) -> dict[str, object]:
    assert main(["optimize", "a.onnx", *args]) == 0
    settings = pipeline.calls[0][1]
    settings.pop("progress", None)
    return settings


def test_defaults(pipeline: FakePipeline, folder: Path) -> None:
    assert _settings(pipeline) == {**_DEFAULTS, "output": Path("a.opt.onnx")}


@pytest.mark.parametrize(
    ("args", "name", "value"),
    [
        (["--select", "conv-*", "--select", "gelu-erf, layernorm"], "select", ("conv-*", "gelu-erf", "layernorm")),
        (["--ignore", "gelu-*"], "ignore", ("gelu-*",)),
        (["--rules", "one.toml", "--rules", "more,rules"], "rules", ("one.toml", "more,rules")),
        (["--no-verify-rules"], "verify_rules", False),
        (["--opset", "keep"], "opset", "keep"),
        (["--opset", "20"], "opset", 20),
        (["--no-validate"], "validate", False),
        (["--provider", "cpu"], "provider", "cpu"),
        (["--rtol", "1e-3"], "rtol", 1e-3),
        (["--atol", "0"], "atol", 0.0),
        (["--seed", "7"], "seed", 7),
        (["--on-mismatch", "fail"], "on_mismatch", "fail"),
        (["--dry-run"], "dry_run", True),
        (["-o", "x.onnx"], "output", Path("x.onnx")),
    ],
)
def test_options_reach_the_pipeline(
    pipeline: FakePipeline, folder: Path, args: list[str], name: str, value: object
) -> None:
    assert _settings(pipeline, *args) == {**_DEFAULTS, "output": Path("a.opt.onnx"), name: value}


def test_rules_are_proven_on_all_cores_before_any_model(pipeline: FakePipeline, folder: Path) -> None:
    _settings(pipeline, "--rules", "mine", "--select", "a", "--ignore", "b")
    ((rules, asked),) = pipeline.checked
    assert rules == ("mine",)
    assert (asked["select"], asked["ignore"], asked["jobs"]) == (("a",), ("b",), None)


def test_rules_are_not_proven_without_any_or_if_the_user_says_so(pipeline: FakePipeline, folder: Path) -> None:
    _settings(pipeline)
    _settings(pipeline, "--rules", "mine", "--no-verify-rules")
    assert pipeline.checked == []


def test_in_place_writes_to_the_model(pipeline: FakePipeline, folder: Path) -> None:
    assert _settings(pipeline, "--in-place") == {**_DEFAULTS, "output": Path("a.onnx"), "in_place": True}


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["--opset", "atuo"], "neither 'auto' nor 'keep'"),
        (["--opset", "0"], "neither 'auto' nor 'keep'"),
        (["--opset", "-1"], "neither 'auto' nor 'keep'"),
        (["--rtol", "nan"], "give a finite number"),
        (["--rtol", "-1"], "give a finite number"),
        (["--atol", "small"], "is not a number"),
        (["--seed", "-1"], "'--seed'"),
        (["--provider", "tpu"], "'--provider'"),
        (["--report", "jsn:x"], "unknown report format 'jsn', did you mean 'json'?"),
        (["--report", "yaml:x"], "unknown report format 'yaml'; there are text, json"),
        (["--report", "json"], "is not FORMAT:FILE"),
        (["--report", "json:"], "is not FORMAT:FILE"),
        (["--report", "json:-", "--report", "text:-"], "two reports would be written to -"),
        (["--report", "json:r", "--report", "text:./r"], "two reports would be written to ./r"),
        (["--report", "json:a.onnx"], "would overwrite the model a.onnx"),
        (["--report", "json:a.opt.onnx"], "would overwrite the model a.opt.onnx"),
        (["--report", "json:nowhere/r.json"], "cannot write the report"),
        (["--report", "json:a.onnx/r.json"], "cannot write the report"),
        (["--report", "json:."], "it is a folder"),
        (["-o", "a.onnx"], "a.onnx is an input"),
        (["-o", "b.onnx/sub/"], "cannot create the folder"),
        (["--opst", "20"], "--opset"),
    ],
)
def test_wrong_use_is_one_line_and_2_before_any_work(
    pipeline: FakePipeline, folder: Path, capsys: pytest.CaptureFixture[str], args: list[str], words: str
) -> None:
    before = sorted(folder.rglob("*"))
    assert main(["optimize", "a.onnx", *args]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("error: ") and err.count("\n") == 1 and err.endswith("\n")
    assert words in err
    assert pipeline.calls == []
    assert sorted(folder.rglob("*")) == before


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (UsageError("no rule is called 'gelu', did you mean 'gelu-erf'?"), 2),
        (InputError("a.onnx: the file is empty"), 2),
        (OutputError("a.opt.onnx: no space"), 2),
        (RuleError("rules/x.toml:3:1: no [rewrite]"), 2),
        (EndlessRulesError("rules do not come to an end on this model"), 2),
        (OpsetError("opset 99 is not known"), 2),
        (ProviderError("CUDA does not run here"), 2),
        (MemoryError(), 2),
        (FileNotFoundError(2, "No such file or directory", "weights.bin"), 2),
        (ValidationError("output 'y' differs"), 1),
        (OriginalFailsError("onnxruntime cannot run the original: ...; --no-validate skips this"), 1),
        (InternalError("a value has two producers"), 3),
        (ZeroDivisionError("division by zero"), 3),
        (EOFError(), 3),
        (KeyboardInterrupt(), 130),
    ],
)
def test_exit_code_of_each_error(
    pipeline: FakePipeline, folder: Path, capsys: pytest.CaptureFixture[str], error: BaseException, code: int
) -> None:
    pipeline.errors["a.onnx"] = error
    assert main(["optimize", "a.onnx", "--report", "json:r.json"]) == code
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1
    assert "Traceback" not in err
    assert not Path("r.json").exists()
    if isinstance(error, Exception):
        assert "a.onnx" in err and str(error.args[-1] if error.args else "") in err


def test_a_bug_is_called_one_and_v_shows_the_traceback(
    pipeline: FakePipeline, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pipeline.errors["a.onnx"] = ZeroDivisionError("division by zero")
    assert main(["optimize", "a.onnx"]) == 3
    assert "onnxfuse bug: ZeroDivisionError: division by zero; please report it (-v shows" in capsys.readouterr().err
    assert main(["optimize", "a.onnx", "-v"]) == 3
    assert "Traceback (most recent call last)" in capsys.readouterr().err


def test_messages_of_many_lines_and_escapes_are_one_printable_line(
    pipeline: FakePipeline, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pipeline.errors["a.onnx"] = InputError("a.onnx: bad\n  node '\x1b[31m'\n")
    main(["optimize", "a.onnx"])
    assert capsys.readouterr().err == "error: a.onnx: bad node '\\x1b[31m'\n"


def test_a_mismatch_still_gets_its_reports(
    pipeline: FakePipeline, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pipeline.errors["a.onnx"] = failing(ValidationError("output 'y' differs by 0.3"), mismatch())
    assert main(["optimize", "a.onnx", "--report", "json:r.json", "--report", "text:r.txt"]) == 1
    out, err = capsys.readouterr()
    assert out.splitlines()[-1].startswith("! models/net.onnx: mismatch")
    assert err == "error: a.onnx: output 'y' differs by 0.3\n"
    assert json.loads(Path("r.json").read_text())["verdict"] == "mismatch"
    assert Path("r.txt").read_text() == out


def test_all_models_are_done_and_the_highest_code_wins(
    pipeline: FakePipeline, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("c.onnx").touch()
    Path("empty").mkdir()
    pipeline.errors = {"a.onnx": failing(ValidationError("differs"), mismatch()), "b.onnx": ZeroDivisionError()}
    assert main(["optimize", "a.onnx", "b.onnx", "c.onnx", "empty"]) == 3
    out, err = capsys.readouterr()
    assert [model.name for model, _ in pipeline.calls] == ["a.onnx", "b.onnx", "c.onnx"]
    assert Path("c.opt.onnx").exists()
    assert [line.split(":")[1].strip() for line in err.splitlines()] == ["empty", "a.onnx", "b.onnx"]
    assert "c.onnx -> c.opt.onnx: optimized" in out


@pytest.mark.parametrize("error", [RuleError("x.toml:1:1: broken"), ProviderError("CUDA does not run here")])
def test_what_is_wrong_with_the_call_is_said_once(
    pipeline: FakePipeline, folder: Path, capsys: pytest.CaptureFixture[str], error: Exception
) -> None:
    pipeline.errors = {"a.onnx": error, "b.onnx": error}
    assert main(["optimize", "."]) == 2
    assert capsys.readouterr().err.count("\n") == 1
    assert len(pipeline.calls) == 1


def test_rules_without_end_on_one_model_do_not_stop_the_next(
    pipeline: FakePipeline, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pipeline.errors = {"a.onnx": EndlessRulesError("rules do not come to an end on this model")}
    assert main(["optimize", "a.onnx", "b.onnx"]) == 2
    assert capsys.readouterr().err == "error: a.onnx: rules do not come to an end on this model\n"
    assert not Path("a.opt.onnx").exists() and Path("b.opt.onnx").exists()


def test_output_folder_gets_the_models_under_their_names(pipeline: FakePipeline, folder: Path) -> None:
    assert main(["optimize", "a.onnx", "b.onnx", "-o", "new/deep"]) == 0
    assert sorted(path.name for path in Path("new/deep").iterdir()) == ["a.onnx", "b.onnx"]


@pytest.mark.parametrize("args", [["--dry-run"], []])
def test_no_empty_folder_stays(pipeline: FakePipeline, folder: Path, args: list[str]) -> None:
    pipeline.errors = {name: InputError(f"{name}: bad") for name in ("a.onnx", "b.onnx")} if not args else {}
    main(["optimize", "a.onnx", "b.onnx", "-o", "new/deep", *args])
    assert not Path("new").exists()


def test_a_run_that_is_not_validated_asks_for_no_onnxruntime(
    pipeline: FakePipeline, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from onnxfuse.validate import providers

    monkeypatch.setattr(providers, "install_warning", lambda: "both are installed")
    assert main(["optimize", "a.onnx", "--no-validate"]) == 0
    assert capsys.readouterr().err == ""
    assert main(["optimize", "a.onnx", "b.onnx"]) == 0
    assert capsys.readouterr().err == "warning: both are installed\n"
