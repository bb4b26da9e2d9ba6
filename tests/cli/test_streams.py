"""Colour, closed pipes and interrupts, in processes of their own where it takes one."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from onnxfuse.cli.main import main
from tests.cli.fakes import FakePipeline

_ROOT = Path(__file__).parents[2]

# Runs the command line on a pipeline that does what the first argument says.
_LAUNCHER = """
import sys, time
from tests.cli.fakes import FakePipeline

def slow(**settings):
    print("working", file=sys.stderr, flush=True)
    time.sleep(60)

def chatty(**settings):
    settings["progress"]("validate", 0, 2)

pipeline = FakePipeline(work={"slow": slow, "chatty": chatty}.get(sys.argv[1], lambda **settings: None))
sys.modules["onnxfuse.pipeline"] = pipeline.as_module()
from onnxfuse.cli.main import main
sys.exit(main(sys.argv[2:]))
"""


def _launch(*args: str, work: str = "none", stdout: int | None = subprocess.PIPE) -> subprocess.Popen[bytes]:
    environment = {**os.environ, "PYTHONPATH": str(_ROOT), "PYTHONWARNINGS": "error"}
    return subprocess.Popen(
        [sys.executable, "-c", _LAUNCHER, work, *args], stdout=stdout, stderr=subprocess.PIPE, env=environment
    )


@pytest.mark.parametrize(
    ("variables", "args", "colored"),
    [
        ({}, [], False),
        ({"FORCE_COLOR": "1"}, [], True),
        ({"FORCE_COLOR": "0"}, [], False),
        ({"CLICOLOR_FORCE": "1"}, [], True),
        ({"FORCE_COLOR": "1", "NO_COLOR": "1"}, [], False),
        ({"FORCE_COLOR": "1", "NO_COLOR": ""}, [], True),
        ({"FORCE_COLOR": "1"}, ["--color", "never"], False),
        ({"NO_COLOR": "1"}, ["--color", "always"], True),
        ({}, ["--color", "always"], True),
    ],
)
def test_color(
    pipeline: FakePipeline,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    variables: dict[str, str],
    args: list[str],
    colored: bool,
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert main(["optimize", "a.onnx", "--report", "text:r.txt", *args]) == 0
    assert ("\x1b[" in capsys.readouterr().out) is colored
    assert "\x1b" not in Path("r.txt").read_text()


@pytest.mark.parametrize("verbosity", [[], ["-q"], ["-v"]])
def test_no_escapes_and_no_progress_when_piped(folder: Path, verbosity: list[str]) -> None:
    process = _launch("optimize", "a.onnx", *verbosity, work="chatty")
    out, err = process.communicate(timeout=60)
    assert process.returncode == 0
    assert b"\x1b" not in out + err and b"\r" not in out + err
    assert err == (b"a.onnx: validate\n" if verbosity == ["-v"] else b"")


@pytest.mark.skipif(sys.platform == "win32", reason="has no pseudo-terminals")
@pytest.mark.parametrize(("no_color", "colored"), [("", True), ("1", False)])
def test_a_terminal_is_colored(folder: Path, monkeypatch: pytest.MonkeyPatch, no_color: str, colored: bool) -> None:
    import pty

    monkeypatch.setenv("NO_COLOR", no_color)
    monkeypatch.setenv("TERM", "xterm")
    reader, writer = pty.openpty()
    process = _launch("optimize", "-q", "a.onnx", stdout=writer)
    os.close(writer)
    _, err = process.communicate(timeout=60)
    shown = os.read(reader, 10_000)
    os.close(reader)
    assert (process.returncode, err) == (0, b"")
    assert (b"\x1b[" in shown) is colored


@pytest.mark.parametrize("args", [["optimize", "a.onnx", "b.onnx", "-v"], ["--help"], ["--version"], []])
def test_a_closed_pipe_is_quiet_and_the_work_is_done(folder: Path, args: list[str]) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    process = _launch(*args, stdout=writer)
    os.close(writer)
    _, err = process.communicate(timeout=60)
    assert process.returncode == (0 if args else 2)
    assert err == b"" or not args
    if "optimize" in args:
        assert Path("a.opt.onnx").exists() and Path("b.opt.onnx").exists()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
@pytest.mark.parametrize("args", [["optimize", "a.onnx"], ["optimize", "a.onnx", "--report", "json:-"], ["--help"]])
def test_a_full_disk_behind_stdout_is_an_error(folder: Path, args: list[str]) -> None:
    with open("/dev/full", "wb") as full:
        process = _launch(*args, stdout=full.fileno())
        _, err = process.communicate(timeout=60)
    assert process.returncode == 2
    assert err.startswith(b"error: cannot write to standard output") and err.count(b"\n") == 1


@pytest.mark.skipif(sys.platform == "win32", reason="has no such signal")
def test_an_interrupt_is_130_and_leaves_no_folder(folder: Path) -> None:
    process = _launch("optimize", "a.onnx", "b.onnx", "-o", "new", work="slow")
    assert process.stderr is not None
    assert process.stderr.readline() == b"working\n"
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out, err) == (130, b"", b"interrupted\n")
    assert not Path("new").exists()


def test_names_that_the_encoding_lacks_are_spelled_out(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("größe 模型.onnx").touch()
    monkeypatch.setenv("PYTHONIOENCODING", "latin-1")
    process = _launch("optimize", "-q", "größe 模型.onnx")
    out, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (0, b"")
    assert "größe".encode("latin-1") + rb" \u6a21\u578b.onnx" in out
