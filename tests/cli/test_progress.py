"""The bar appears late, only on a terminal, and goes away."""

from __future__ import annotations

import io
import sys
import time

import pytest

from onnxfuse.cli import progress
from onnxfuse.cli.console import Console
from onnxfuse.cli.progress import ProgressBar


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def _terminal(monkeypatch: pytest.MonkeyPatch, patience: float = 0.05) -> _Terminal:
    """Make stderr a terminal; not in a fixture, since pytest sets stderr anew after those."""
    stream = _Terminal()
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(progress, "_PATIENCE", patience)
    return stream


def _wait_for(stream: _Terminal, words: str) -> bool:
    deadline = time.monotonic() + 20
    while words not in stream.getvalue() and time.monotonic() < deadline:
        time.sleep(0.02)
    return words in stream.getvalue()


def test_a_long_phase_is_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = _terminal(monkeypatch)
    with ProgressBar("net.onnx", Console("never", 0), enabled=True) as bar:
        bar("validate", 0, 4)
        assert _wait_for(terminal, "net.onnx: validate")
        bar("validate", 3, 4)


def test_a_short_phase_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = _terminal(monkeypatch, patience=30)
    with ProgressBar("net.onnx", Console("never", 0), enabled=True) as bar:
        bar("load", 0, 1)
        bar("validate", 0, 4)
    assert terminal.getvalue() == ""


@pytest.mark.parametrize(("verbosity", "enabled"), [(0, False), (-1, True)])
def test_nothing_is_drawn_unasked(monkeypatch: pytest.MonkeyPatch, verbosity: int, enabled: bool) -> None:
    terminal = _terminal(monkeypatch)
    with ProgressBar("net.onnx", Console("never", verbosity), enabled) as bar:
        bar("validate", 0, 4)
        time.sleep(0.3)
    assert terminal.getvalue() == ""


def test_verbose_names_each_phase_off_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = io.StringIO()
    monkeypatch.setattr(sys, "stderr", stream)
    with ProgressBar("net.onnx", Console("never", 1), enabled=True) as bar:
        bar("load", 0, 1)
        bar("load", 1, 1)
        bar("validate", 0, 0)
    assert stream.getvalue() == "net.onnx: load\nnet.onnx: validate\n"
