"""Which execution provider validates: CUDA where a session really runs there, else the CPU, and why."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import importlib.metadata
import io
import sys

from onnx import TensorProto, helper

from onnxfuse.errors import ProviderError, UsageError
from onnxfuse.validate.sessions import CPU, CUDA, reason

_NAMES = ("auto", "cuda", "cpu")
_FATAL, _ORT_DEFAULT = 4, 2
# How onnxruntime.preload_dlls() ends when a library that the CUDA provider cannot do without is missing.
_GAVE_UP = "Please follow"


def choose(provider: str) -> tuple[str, str]:
    """Return (execution provider, note) for "auto", "cuda" or "cpu"; the note says why "auto" did not take CUDA.

    Raises ProviderError for "cuda" where CUDA does not run, UsageError for another name.
    """
    if provider not in _NAMES:
        raise UsageError(f"unknown provider {provider!r}; use one of {', '.join(_NAMES)}")
    if provider == "cpu":
        return CPU, ""
    obstacle = cuda_obstacle()
    if not obstacle:
        return CUDA, ""
    if provider == "cuda":
        raise ProviderError(f"CUDA does not run here: {obstacle}; use --provider cpu")
    return CPU, f"not on CUDA: {obstacle}"


def install_warning() -> str:
    """Return one line when onnxruntime and onnxruntime-gpu are both installed and overwrite each other, else ""."""
    both = ("onnxruntime", "onnxruntime-gpu")
    if not all(map(_installed, both)):
        return ""
    return (
        "onnxruntime and onnxruntime-gpu are both installed and share one folder, so either may be broken; "
        "uninstall both, then install the one you want"
    )


@functools.cache
def cuda_obstacle() -> str:
    """Return why CUDA cannot be used in this process, "" if it can; writes nothing to stdout or stderr."""
    # The cheap questions first: asking onnxruntime for a provider that fails to load prints to the terminal.
    return _no_device() or _no_provider() or _no_library() or _no_session()


def _installed(distribution: str) -> bool:
    try:
        importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return False
    return True


def _no_device() -> str:
    count = ctypes.c_int(0)
    try:
        driver = ctypes.CDLL("nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1")
        if driver.cuInit(0) == 0 and driver.cuDeviceGetCount(ctypes.byref(count)) == 0 and count.value:
            return ""
    except (OSError, AttributeError):
        pass
    return "no CUDA device"


def _no_provider() -> str:
    import onnxruntime

    if CUDA in onnxruntime.get_available_providers():
        return ""
    return "this onnxruntime is built without CUDA (onnxruntime-gpu has it)"


def _no_library() -> str:
    """Load the CUDA libraries that lie in Python packages or on the system; onnxruntime prints which one it misses."""
    import onnxruntime

    if not hasattr(onnxruntime, "preload_dlls"):
        return ""
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        onnxruntime.preload_dlls()
    failures = [line for line in said.getvalue().splitlines() if line.startswith("Failed to load ")]
    return f"{failures[-1][0].lower()}{failures[-1][1:]}" if _GAVE_UP in said.getvalue() and failures else ""


def _no_session() -> str:
    import onnxruntime

    value = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1]) for name in "xy"]
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "probe", value[:1], value[1:])
    model = helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 17)])
    options = onnxruntime.SessionOptions()
    options.log_severity_level = _FATAL
    # Failures to load a provider go to the process-wide logger, whatever the session's own level.
    onnxruntime.set_default_logger_severity(_FATAL)
    try:
        session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=[CUDA, CPU])
    except Exception as error:
        return reason(error)
    finally:
        onnxruntime.set_default_logger_severity(_ORT_DEFAULT)
    return "" if session.get_providers()[0] == CUDA else "onnxruntime fell back to the CPU"
