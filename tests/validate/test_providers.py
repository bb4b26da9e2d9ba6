"""The choice of an execution provider."""

from __future__ import annotations

import importlib.metadata
import subprocess
import sys
from collections.abc import Iterator

import numpy as np
import pytest

from onnxfuse.errors import ProviderError, UsageError
from onnxfuse.validate import install_warning, providers
from onnxfuse.validate.sessions import CPU, CUDA, Refused, open_session, reason
from tests.validate.build import model


@pytest.fixture
def no_cuda(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(providers, "cuda_obstacle", lambda: "no CUDA device")
    yield


def test_cpu_asks_nothing() -> None:
    assert providers.choose("cpu") == (CPU, "")


@pytest.mark.usefixtures("no_cuda")
def test_auto_says_why_it_is_not_on_cuda() -> None:
    assert providers.choose("auto") == (CPU, "not on CUDA: no CUDA device")


@pytest.mark.usefixtures("no_cuda")
def test_cuda_that_is_not_there_is_an_error() -> None:
    with pytest.raises(ProviderError, match="no CUDA device") as caught:
        providers.choose("cuda")
    assert caught.value.exit_code == 2


def test_auto_takes_cuda_where_it_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(providers, "cuda_obstacle", lambda: "")
    assert providers.choose("auto") == providers.choose("cuda") == (CUDA, "")


def test_unknown_provider() -> None:
    with pytest.raises(UsageError, match=r"'gpu'.*auto, cuda, cpu"):
        providers.choose("gpu")


def test_asking_for_cuda_is_quiet_even_when_every_question_is_asked() -> None:
    code = (
        "from onnxfuse.validate import providers as p;"
        "answers = [p.cuda_obstacle(), p._no_provider(), p._no_library()];"
        "assert all(isinstance(answer, str) and '\\n' not in answer for answer in answers)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("", "")


def test_importing_the_package_imports_no_onnxruntime() -> None:
    code = "import sys, onnxfuse.validate; assert 'onnxruntime' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize(
    ("installed", "warns"),
    [({"onnxruntime"}, False), ({"onnxruntime-gpu"}, False), ({"onnxruntime", "onnxruntime-gpu"}, True)],
)
def test_both_packages_are_one_too_many(installed: set[str], warns: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    def version(name: str) -> str:
        if name not in installed:
            raise importlib.metadata.PackageNotFoundError(name)
        return "1"

    monkeypatch.setattr(importlib.metadata, "version", version)
    found = install_warning()
    assert bool(found) == warns and "\n" not in found


@pytest.mark.parametrize(
    ("said", "kept"),
    [
        ("[ONNXRuntimeError] : 2 : INVALID_ARGUMENT : Got invalid\n dimensions", "Got invalid dimensions"),
        ("[ONNXRuntimeError] : 1 : FAIL : Load model from /tmp/a b.onnx failed:Type Error: no", "Type Error: no"),
        (
            "[ONNXRuntimeError] : 6 : RUNTIME_EXCEPTION : running Reshape node. Status Message: "
            "/onnxruntime_src/core/reshape_helper.h:91 onnxruntime::ReshapeHelper::ReshapeHelper(const Shape&, bool) "
            "size was false.",
            "running Reshape node. Status Message: size was false.",
        ),
    ],
)
def test_reasons_are_one_line_without_prefixes(said: str, kept: str) -> None:
    assert reason(RuntimeError(said)) == kept


def test_long_reasons_are_cut() -> None:
    assert len(reason(RuntimeError("x" * 5000))) == 300


def test_a_refusal_carries_the_reason() -> None:
    session = open_session(model("g (float[3] x) => (float[3] y) { y = Relu (x) }"), optimized=False, provider=CPU)
    with pytest.raises(Refused, match="Expected: 3"):
        session.run({"x": np.ones(4, np.float32)})
