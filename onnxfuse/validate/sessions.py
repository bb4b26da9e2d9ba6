"""onnxruntime sessions: opened quietly, weights mapped from the model's files and never copied."""

from __future__ import annotations

import ctypes
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import ml_dtypes
import numpy as np
from onnx import GraphProto, ModelProto, TensorProto, ValueInfoProto

from onnxfuse.errors import InputError
from onnxfuse.model.file import ModelFile, serialize

if TYPE_CHECKING:
    import onnxruntime

CPU = "CPUExecutionProvider"
CUDA = "CUDAExecutionProvider"

# What onnxruntime takes and gives: arrays, lists (sequences), dicts (maps), None (an empty optional).
Value: TypeAlias = Any

_FATAL = 4
_REASON_CHARS = 300

# Types that numpy lacks travel as their bits in an OrtValue: (type of the bits, ml_dtypes class, ONNX number).
_BIT_TYPES: dict[str, tuple[type, Any, int]] = {
    "tensor(bfloat16)": (np.uint16, ml_dtypes.bfloat16, TensorProto.BFLOAT16),
    "tensor(float8e4m3fn)": (np.uint8, ml_dtypes.float8_e4m3fn, TensorProto.FLOAT8E4M3FN),
    "tensor(float8e4m3fnuz)": (np.uint8, ml_dtypes.float8_e4m3fnuz, TensorProto.FLOAT8E4M3FNUZ),
    "tensor(float8e5m2)": (np.uint8, ml_dtypes.float8_e5m2, TensorProto.FLOAT8E5M2),
    "tensor(float8e5m2fnuz)": (np.uint8, ml_dtypes.float8_e5m2fnuz, TensorProto.FLOAT8E5M2FNUZ),
}


class Refused(Exception):
    """onnxruntime did not load or run a model; the message is its reason in one line."""


@dataclass(frozen=True)
class Port:
    """An input or output as onnxruntime sees it; ``type`` reads like "tensor(float)" or "seq(tensor(int64))"."""

    name: str
    type: str


class Session:
    """A loaded model that runs on one execution provider."""

    def __init__(self, session: onnxruntime.InferenceSession) -> None:
        self._session = session
        self.inputs = tuple(Port(item.name, item.type) for item in session.get_inputs())
        self.outputs = tuple(Port(item.name, item.type) for item in session.get_outputs())
        self.provider: str = session.get_providers()[0]

    def run(self, feeds: Mapping[str, Value]) -> list[Value]:
        """Return the outputs in the order of ``outputs``; raises Refused with onnxruntime's reason."""
        import onnxruntime

        options = onnxruntime.RunOptions()
        options.log_severity_level = _FATAL
        fed = {port.name: _to_ort(feeds[port.name], port.type) for port in self.inputs}
        try:
            if any(port.type in _BIT_TYPES for port in self.outputs):
                return self._run_as_bits(fed, options)
            return list(self._session.run(None, fed, options))
        except Exception as error:
            raise Refused(reason(error)) from error

    def _run_as_bits(self, fed: Mapping[str, Value], options: onnxruntime.RunOptions) -> list[Value]:
        import onnxruntime

        values = {
            name: onnxruntime.OrtValue.ortvalue_from_numpy(value) if isinstance(value, np.ndarray) else value
            for name, value in fed.items()
        }
        results = self._session.run_with_ort_values([port.name for port in self.outputs], values, options)
        return [_from_ort(result, port.type) for result, port in zip(results, self.outputs, strict=True)]


def open_session(model: ModelFile, *, optimized: bool, provider: str, expose: Sequence[str] = ()) -> Session:
    """Load a model with onnxruntime's own graph optimizations all on or all off.

    ``expose`` are values of its main graph, not outputs yet, that it gives as further outputs. Raises Refused with
    onnxruntime's reason, InputError when the model in memory passes protobuf's 2 GB.
    """
    import onnxruntime

    # Protobuf merges concatenated messages: the graph gets these outputs behind its own, and nothing is copied twice.
    extra = ModelProto(graph=GraphProto(output=[ValueInfoProto(name=name) for name in expose]))
    data = _bytes(model) + (extra.SerializeToString() if expose else b"")
    try:
        session = onnxruntime.InferenceSession(data, _options(model, optimized), providers=_providers(provider))
    except Exception as error:
        raise Refused(reason(error)) from error
    return Session(session)


def reason(error: BaseException) -> str:
    """Return what onnxruntime says in one line, without its prefixes."""
    text = " ".join(str(error).split())
    text = re.sub(r"^\[ONNXRuntimeError\] : \d+ : \w+ : ", "", text)
    text = re.sub(r"^(Load model from .*? failed:|Exception during initialization: )", "", text)
    # Where in its source onnxruntime was: "/onnxruntime_src/...h:91 onnxruntime::Class::method(const Type&, bool) ".
    text = re.sub(r"/?\S+:\d+ [^()]*\([^()]*\)(?: const)?(?: \[with [^]]*\])? ", "", text)
    return text if len(text) <= _REASON_CHARS else text[: _REASON_CHARS - 3] + "..."


def _bytes(model: ModelFile) -> bytes:
    if model.proto.ByteSize() >= 2**31 - 1:
        raise InputError(
            "the model holds over 2 GB of weights in memory, which onnxruntime cannot open; "
            "save it with external data and give the path, or do not validate"
        )
    return serialize(model.proto)


def _options(model: ModelFile, optimized: bool) -> onnxruntime.SessionOptions:
    import onnxruntime

    levels = onnxruntime.GraphOptimizationLevel
    options = onnxruntime.SessionOptions()
    options.log_severity_level = _FATAL
    options.graph_optimization_level = levels.ORT_ENABLE_ALL if optimized else levels.ORT_DISABLE_ALL
    options.use_deterministic_compute = True
    # One run per session: an arena would only hold on to memory.
    options.enable_cpu_mem_arena = False
    options.add_session_config_entry("session.model_external_initializers_file_folder_path", str(model.folder))
    # Prepacking copies the weights into another layout: a second copy of a mapped file, in anonymous memory.
    options.add_session_config_entry("session.disable_prepacking", "1")
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    return options


def _providers(provider: str) -> list[Any]:
    if provider == CPU:
        return [CPU]
    # TF32 rounds float32 to 10 bits: its noise would hide real errors. An exhaustive search is slow and not repeatable.
    return [(CUDA, {"use_tf32": "0", "cudnn_conv_algo_search": "HEURISTIC"}), CPU]


def _to_ort(value: Value, type_name: str) -> Value:
    if value is None or type_name not in _BIT_TYPES:
        return value
    import onnxruntime

    bits, _, number = _BIT_TYPES[type_name]
    return onnxruntime.OrtValue.ortvalue_from_numpy_with_onnx_type(value.view(bits), number)


def _from_ort(value: onnxruntime.OrtValue, type_name: str) -> Value:
    if type_name not in _BIT_TYPES:
        return value.numpy()
    bits, dtype, _ = _BIT_TYPES[type_name]
    shape: Sequence[int] = value.shape()
    size = math.prod(shape) * np.dtype(bits).itemsize
    # onnxruntime converts no bfloat16 to numpy; outputs lie in host memory.
    return np.frombuffer(ctypes.string_at(value.data_ptr(), size), bits).view(dtype).reshape(tuple(shape))
