"""The public names: there, few, typed, and not imported before they are used."""

from __future__ import annotations

import importlib.metadata
import subprocess
import sys

import pytest

import onnxfuse
from onnxfuse import errors


@pytest.mark.parametrize("name", onnxfuse.__all__)
def test_every_public_name_is_there(name: str) -> None:
    assert getattr(onnxfuse, name) is not None
    assert name in dir(onnxfuse)


def test_other_names_are_not() -> None:
    with pytest.raises(AttributeError, match="module 'onnxfuse' has no attribute 'optimise'"):
        onnxfuse.optimise  # type: ignore[attr-defined]  # noqa: B018


def test_every_error_class_is_public() -> None:
    defined = {name for name, value in vars(errors).items() if isinstance(value, type)}
    assert defined <= set(onnxfuse.__all__)
    assert all(issubclass(getattr(errors, name), onnxfuse.OnnxfuseError) for name in defined)


def test_version_is_that_of_the_installed_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(vars(onnxfuse), "__version__", raising=False)
    monkeypatch.setattr(importlib.metadata, "version", lambda name: f"9.9 of {name}")
    assert onnxfuse.__version__ == "9.9 of onnxfuse"
    monkeypatch.delitem(vars(onnxfuse), "__version__")


def test_a_checkout_that_is_not_installed_has_a_version_too(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> str:
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.delitem(vars(onnxfuse), "__version__", raising=False)
    monkeypatch.setattr(importlib.metadata, "version", missing)
    assert onnxfuse.__version__ == "0+unknown"
    monkeypatch.delitem(vars(onnxfuse), "__version__")


def test_import_loads_nothing() -> None:
    heavy = "[n for n in sys.modules if n.startswith(('onnx.', 'numpy', 'click'))]"
    code = f"import onnxfuse, sys; sys.exit(', '.join({heavy}) or 0)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stderr.strip()) == (0, "")
