"""Fixtures of the command line's tests: a fake pipeline, a folder with files that are called models."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.cli.fakes import FakePipeline

_COLOR_VARIABLES = ("NO_COLOR", "FORCE_COLOR", "CLICOLOR_FORCE", "TERM")


@pytest.fixture
def pipeline(monkeypatch: pytest.MonkeyPatch) -> FakePipeline:
    fake = FakePipeline()
    monkeypatch.setitem(sys.modules, "onnxfuse.pipeline", fake.as_module())
    return fake


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory, with the files a.onnx and b.onnx in it."""
    monkeypatch.chdir(tmp_path)
    for name in ("a.onnx", "b.onnx"):
        (tmp_path / name).write_bytes(b"model")
    return tmp_path


@pytest.fixture(autouse=True)
def no_color_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in _COLOR_VARIABLES:
        monkeypatch.delenv(name, raising=False)
