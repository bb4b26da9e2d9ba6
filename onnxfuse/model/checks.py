"""What makes a file unusable as a model, each with its reason in one line."""

from __future__ import annotations

from collections.abc import Iterable

import onnx
import onnx.defs
from onnx import ModelProto, TensorProto

from onnxfuse.errors import InputError
from onnxfuse.model.weights.data import DataFiles
from onnxfuse.model.weights.views import View
from onnxfuse.model.weights.wire import WireError

_LFS_HEAD = b"version https://git-lfs"
_OTHER_FORMATS = (
    (b"PK\x03\x04", "a zip archive (a PyTorch checkpoint, perhaps)"),
    (b"\x89HDF", "an HDF5 file"),
    (b"\x1f\x8b", "compressed by gzip"),
    (b"\x80", "a Python pickle"),
)
_DEFAULT_DOMAINS = ("", "ai.onnx")
# Up to IR version 2 a model without opset imports means opset 1 of the default domain.
_OPSETS_SINCE_IR = 3


def foreign_format(head: bytes) -> str | None:
    """Say what a file that is no ONNX model is instead, judging by its first bytes; None if that cannot be told."""
    if head.startswith(_LFS_HEAD):
        return "a Git-LFS pointer, not the model itself; run `git lfs pull` to fetch it"
    if head[4:8] == b"ORTM":
        return "in onnxruntime's own ORT format; give the .onnx file it was made from"
    for magic, name in _OTHER_FORMATS:
        if head.startswith(magic):
            return f"{name}, not an ONNX model; give a .onnx file"
    return "a text file, not an ONNX model; give a .onnx file" if _is_text(head) else None


def _is_text(head: bytes) -> bool:
    # The cut may have fallen inside a character.
    text = head.decode("utf-8", errors="ignore")
    return len(head) - len(text.encode()) < 4 and all(char.isprintable() or char in "\t\n\r\f" for char in text)


def broken(path: str, head: bytes, error: Exception) -> InputError:
    """Return the error for a file that does not parse."""
    foreign = foreign_format(head)
    if foreign is not None:
        return InputError(f"{path} is {foreign}")
    if isinstance(error, WireError) and error.overrun:
        return InputError(f"{path} is truncated or is not an ONNX model ({error}); get the file again")
    return InputError(f"{path} is not an ONNX model ({error}); give a .onnx file")


def check_versions(proto: ModelProto, name: str) -> None:
    """Refuse models without a graph, and those newer than the installed onnx; raises InputError."""
    if not proto.HasField("graph"):
        raise InputError(f"{name} holds no graph, so it is no ONNX model; export it again")
    if not proto.ir_version:
        raise InputError(f"{name} states no IR version, so it is no valid ONNX model; export it again")
    if proto.ir_version > onnx.IR_VERSION:
        raise InputError(
            f"{name} has IR version {proto.ir_version}, but onnx {onnx.__version__} knows only up to "
            f"{onnx.IR_VERSION}; install a newer onnx"
        )
    _check_opsets(proto, name)


def _check_opsets(proto: ModelProto, name: str) -> None:
    imported = {"" if opset.domain == "ai.onnx" else opset.domain for opset in proto.opset_import}
    if proto.ir_version >= _OPSETS_SINCE_IR and not imported:
        raise InputError(f"{name} imports no opset, so its operators have no meaning; export it again")
    if imported and "" not in imported and any(node.domain in _DEFAULT_DOMAINS for node in proto.graph.node):
        raise InputError(f"{name} uses operators of the default domain but imports no opset of it; export it again")
    known: dict[str, tuple[int, int]] = onnx.defs.C.schema_version_map()
    for opset in proto.opset_import:
        oldest, newest = known.get("" if opset.domain == "ai.onnx" else opset.domain, (None, None))
        if newest is not None and opset.version > newest:
            raise InputError(
                f"{name} uses opset {opset.version} of domain {opset.domain or 'ai.onnx'}, but onnx "
                f"{onnx.__version__} knows only up to {newest}; install a newer onnx"
            )
        if oldest is not None and opset.version < oldest:
            raise InputError(
                f"{name} uses opset {opset.version} of domain {opset.domain or 'ai.onnx'}, which does "
                "not exist; export it again"
            )


def check_data(viewed: Iterable[tuple[TensorProto, View]], data: DataFiles, own_views: int) -> None:
    """Refuse missing, short or stray external data; ``own_views`` counts the views that strip made.

    Raises InputError.
    """
    for tensor, view in viewed:
        if view.location == data.own_name:
            own_views -= 1
        data.span(view, tensor.name)
    if own_views:
        raise InputError(
            "a tensor names the model file itself as its external data, which onnxfuse cannot keep; "
            "save the model with inline weights"
        )
