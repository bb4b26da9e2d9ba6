"""Small models on onnxruntime with its optimizations off, each loaded once."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from typing import Any

from numpy.typing import NDArray
from onnx import ModelProto

from onnxfuse.validate.sessions import CPU, Session, reason
from onnxfuse.validate.sessions import Refused as RunRefused

_REMEMBERED = 64


class CannotRun(Exception):
    """onnxruntime does not run a model; `no_kernel`: only because it lacks a kernel for an element type."""

    def __init__(self, message: str, no_kernel: bool = False) -> None:
        super().__init__(message)
        self.no_kernel = no_kernel


class Runtime:
    """Loads and runs models, remembering the last ones it loaded or was refused."""

    def __init__(self) -> None:
        self._sessions: OrderedDict[bytes, Session | CannotRun] = OrderedDict()

    def run(self, model: bytes, feeds: Mapping[str, NDArray[Any]]) -> list[NDArray[Any]]:
        """Return the outputs of a serialized model; raises CannotRun."""
        session = self._sessions.get(model)
        if session is None:
            session = self._sessions[model] = _load(model)
            if len(self._sessions) > _REMEMBERED:
                self._sessions.popitem(last=False)
        if isinstance(session, CannotRun):
            raise session
        try:
            return session.run(feeds)
        except RunRefused as error:
            raise CannotRun(str(error)) from error


def _load(model: bytes) -> Session | CannotRun:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.enable_cpu_mem_arena = False
    try:
        return Session(onnxruntime.InferenceSession(model, options, providers=[CPU]))
    except Exception as error:
        return CannotRun(reason(error), no_kernel="Could not find an implementation" in str(error))


def serialized(model: ModelProto) -> bytes:
    """Return a model as bytes that are equal for equal models: without names of nodes, metadata and doc strings."""
    bare = ModelProto()
    bare.CopyFrom(model)
    for node in bare.graph.node:
        for field in ("name", "doc_string", "metadata_props"):
            node.ClearField(field)
    data: bytes = bare.SerializeToString(deterministic=True)
    return data
