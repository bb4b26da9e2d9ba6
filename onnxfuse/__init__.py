"""onnxfuse: fuse the operators of ONNX models by rules that are data, and prove the result on onnxruntime.

>>> import onnxfuse
>>> result = onnxfuse.optimize("model.onnx", output="fused.onnx")  # doctest: +SKIP

Names are imported on first use, so that the command line starts fast.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from onnxfuse.checking import check
    from onnxfuse.errors import (
        EndlessRulesError,
        InputError,
        InternalError,
        OnnxfuseError,
        OpsetError,
        OriginalFailsError,
        OutputError,
        ProviderError,
        RuleError,
        UsageError,
        ValidationError,
    )
    from onnxfuse.explaining import explain
    from onnxfuse.gate import Policy
    from onnxfuse.pipeline import Result, optimize

    __version__: str

__all__ = [
    "EndlessRulesError",
    "InputError",
    "InternalError",
    "OnnxfuseError",
    "OpsetError",
    "OriginalFailsError",
    "OutputError",
    "Policy",
    "ProviderError",
    "Result",
    "RuleError",
    "UsageError",
    "ValidationError",
    "__version__",
    "check",
    "explain",
    "optimize",
]

_HOMES = {
    "Result": "onnxfuse.pipeline",
    "optimize": "onnxfuse.pipeline",
    "check": "onnxfuse.checking",
    "explain": "onnxfuse.explaining",
    "Policy": "onnxfuse.gate",
}


if not TYPE_CHECKING:  # to a type checker, a module with __getattr__ has every name

    def __getattr__(name: str) -> object:
        if name not in __all__:
            raise AttributeError(f"module 'onnxfuse' has no attribute {name!r}")
        value = _version() if name == "__version__" else _imported(name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


def _imported(name: str) -> object:
    from importlib import import_module

    return getattr(import_module(_HOMES.get(name, "onnxfuse.errors")), name)


def _version() -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("onnxfuse")
    except PackageNotFoundError:  # run from a checkout that was never installed
        return "0+unknown"
