"""What goes to stdout and to report files."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path

import pytest

from onnxfuse.cli.files import write_text
from onnxfuse.cli.main import main
from onnxfuse.cli.params import REPORT_FORMATS
from onnxfuse.errors import InputError, OutputError
from onnxfuse.report.formats import FORMATS
from tests.cli.fakes import FakePipeline


def test_formats_on_offer_are_those_there_are() -> None:
    assert set(REPORT_FORMATS) == set(FORMATS)


def test_stdout_is_the_text_report_and_stderr_is_empty(
    pipeline: FakePipeline, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["optimize", "a.onnx"]) == 0
    out, err = capsys.readouterr()
    assert out.startswith("a.onnx  opset 13")
    assert out.splitlines()[-1].startswith("+ a.onnx -> a.opt.onnx: optimized")
    assert err == ""


def test_quiet_shows_the_verdicts_only(
    pipeline: FakePipeline, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["optimize", "-q", "a.onnx", "b.onnx"]) == 0
    assert [line.split(":")[0] for line in capsys.readouterr().out.splitlines()] == [
        "+ a.onnx -> a.opt.onnx",
        "+ b.onnx -> b.opt.onnx",
    ]


def test_json_on_stdout_takes_the_place_of_the_text(
    pipeline: FakePipeline, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["optimize", "a.onnx", "--report", "json:-", "--report", "text:r.txt"]) == 0
    assert json.loads(capsys.readouterr().out)["model"]["path"] == "a.onnx"
    assert Path("r.txt").read_text().startswith("a.onnx  opset 13")


@pytest.mark.parametrize("models", [["a.onnx", "b.onnx"], ["."]])
def test_json_of_several_models_is_one_document(
    pipeline: FakePipeline, folder: Path, models: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    pipeline.errors["b.onnx"] = InputError("b.onnx: the file is empty")
    assert main(["optimize", *models, "--report", "json:r.json"]) == 2
    document = json.loads(Path("r.json").read_text())
    assert document["schema_version"] == 1
    assert [report["model"]["path"] for report in document["reports"]] == ["a.onnx"]
    assert document["errors"] == [{"path": "b.onnx", "message": "b.onnx: the file is empty", "exit_code": 2}]


def test_a_folder_with_one_model_gives_the_document_of_several(pipeline: FakePipeline, folder: Path) -> None:
    Path("b.onnx").unlink()
    assert main(["optimize", ".", "--report", "json:r.json"]) == 0
    assert len(json.loads(Path("r.json").read_text())["reports"]) == 1


def test_text_of_several_models_names_the_failed_ones(pipeline: FakePipeline, folder: Path) -> None:
    pipeline.errors["b.onnx"] = InputError("b.onnx: the file is empty")
    assert main(["optimize", ".", "--report", "text:r.txt"]) == 2
    assert Path("r.txt").read_text().splitlines()[-1] == "! b.onnx: the file is empty"


def test_report_files_replace_old_ones_and_leave_nothing_else(pipeline: FakePipeline, folder: Path) -> None:
    Path("r.json").write_text("old")
    assert main(["optimize", "a.onnx", "--report", "json:r.json"]) == 0
    assert json.loads(Path("r.json").read_text())
    assert sorted(path.name for path in folder.iterdir()) == ["a.onnx", "a.opt.onnx", "b.onnx", "r.json"]


def test_report_file_has_the_usual_permissions(folder: Path) -> None:
    umask = os.umask(0o027)
    try:
        write_text("r.txt", "text")
    finally:
        os.umask(umask)
    assert stat.S_IMODE(Path("r.txt").stat().st_mode) == 0o640


def test_a_link_to_a_report_stays_a_link(folder: Path) -> None:
    Path("real").mkdir()
    Path("real/r.txt").write_text("old")
    Path("r.txt").symlink_to("real/r.txt")
    write_text("r.txt", "new")
    assert Path("r.txt").is_symlink()
    assert Path("real/r.txt").read_text() == "new"


def test_a_failed_write_leaves_the_old_report(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    Path("r.txt").write_text("old")
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OutputError, match=r"r\.txt: cannot write the report: No space left on device"):
        write_text("r.txt", "new")
    assert Path("r.txt").read_text() == "old"
    assert not list(folder.glob(".*"))


def test_a_device_is_written_to_not_replaced(pipeline: FakePipeline, folder: Path) -> None:
    assert main(["optimize", "a.onnx", "--report", f"json:{os.devnull}"]) == 0
    assert stat.S_ISCHR(os.stat(os.devnull).st_mode)


@pytest.mark.skipif(not Path("/dev/fd").exists(), reason="needs /dev/fd")
def test_a_pipe_is_written_to(folder: Path) -> None:
    """As the shell's process substitution gives it: --report json:>(jq .)."""
    reader, writer = os.pipe()
    write_text(f"/dev/fd/{writer}", "text")
    os.close(writer)
    with open(reader, "rb") as stream:
        assert stream.read() == b"text"
