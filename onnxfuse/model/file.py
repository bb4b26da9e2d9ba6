"""Model files: loaded without their weights, which are read only when somebody asks for one."""

from __future__ import annotations

import dataclasses
import math
import os
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from google.protobuf.message import DecodeError, EncodeError
from onnx import ModelProto, TensorProto, helper, numpy_helper

from onnxfuse.errors import InputError
from onnxfuse.model import checks
from onnxfuse.model.weights import links, views
from onnxfuse.model.weights.data import DataFiles
from onnxfuse.model.weights.packing import inline_pieces, inlined, tensors
from onnxfuse.model.weights.source import Source, Span, open_source, sha256
from onnxfuse.model.weights.wire import WireError

_HEAD_BYTES = 512
# Two or more elements share a byte, so that numpy cannot view the bytes as they are.
_PACKED_TYPES = {
    number for name, number in TensorProto.DataType.items() if name in ("INT4", "UINT4", "FLOAT4E2M1", "INT2", "UINT2")
}


@dataclass(frozen=True, eq=False)
class ModelFile:
    """A model whose weights stay where they are.

    ``proto`` is the skeleton: each ``raw_data`` of ``VIEW_MIN_BYTES`` or more in the model file is an external-data
    entry whose location is the file's own base name. Other external tensors keep their entries. All locations are
    relative to ``folder``. ``path`` is None, and nothing is replaced, for a model that was given in memory.
    """

    proto: ModelProto
    folder: Path
    path: Path | None
    data: DataFiles = dataclasses.field(repr=False)
    # Whether proto still says what the file at path says.
    pristine: bool = True

    def with_proto(self, proto: ModelProto) -> ModelFile:
        """Return a model with another skeleton whose views lead to the same files."""
        return dataclasses.replace(self, proto=proto, pristine=False)

    def span(self, tensor: TensorProto) -> Span | None:
        """Return where the bytes of a tensor lie, None if it is held in memory; raises InputError."""
        view = views.view_of(tensor)
        return None if view is None else self.data.span(view, tensor.name)

    def read(self, tensor: TensorProto) -> np.ndarray:
        """Return the values of any tensor of the model, shaped by its dims, wherever they lie; perhaps read-only.

        dtypes that numpy lacks are those of ml_dtypes; strings come as objects. Raises InputError when the data is
        missing or does not fit the dims.
        """
        span = self.span(tensor)
        try:
            return numpy_helper.to_array(tensor) if span is None else _array(tensor, span.read())
        except (TypeError, ValueError, KeyError, NotImplementedError) as error:
            raise InputError(
                f"tensor {tensor.name!r}: its data does not fit its type and shape ({error}); export the model again"
            ) from error

    def materialize(self) -> ModelProto:
        """Return the whole model in memory, with all weights inline; raises InputError."""
        return inlined(self.proto, self.data)

    @cached_property
    def size(self) -> int:
        """The bytes of the model file and of its external data."""
        skeleton = serialize(self.proto)
        own = self.data.own
        model = own.size if own and self.pristine else sum(map(len, inline_pieces(skeleton, self.data)))
        spans = {self.data.span(view, tensor.name) for tensor, view in views.viewed_tensors(skeleton)}
        return model + sum(len(span) for span in spans if span.source is not own)

    @cached_property
    def sha256(self) -> str:
        """The SHA-256 of the model file (without external data), or of what it would be."""
        own = self.data.own
        if own is not None and self.pristine:
            return sha256(Span(own, 0, own.size).chunks())
        return sha256(self._chunks())

    def _chunks(self) -> Iterator[bytes]:
        for piece in inline_pieces(serialize(self.proto), self.data):
            if isinstance(piece, Span):
                yield from piece.chunks()
            else:
                yield piece


def serialize(proto: ModelProto) -> bytes:
    """Return the bytes of a skeleton; raises InputError when protobuf cannot hold it."""
    try:
        data: bytes = proto.SerializeToString(deterministic=True)
    except (EncodeError, ValueError) as error:
        raise InputError(f"the model does not fit into a protobuf message ({error}); use external data") from error
    return data


def _array(tensor: TensorProto, data: bytes) -> np.ndarray:
    if tensor.data_type in _PACKED_TYPES:
        whole = TensorProto(dims=tensor.dims, data_type=tensor.data_type, raw_data=data)
        return numpy_helper.to_array(whole)
    dtype = np.dtype(helper.tensor_dtype_to_np_dtype(tensor.data_type))
    if len(data) != dtype.itemsize * math.prod(tensor.dims):
        raise ValueError(f"{len(data)} bytes for {list(tensor.dims)} of {dtype}")
    return np.frombuffer(data, dtype.newbyteorder("<")).reshape(tuple(tensor.dims))


def from_proto(proto: ModelProto, folder: Path | None = None) -> ModelFile:
    """Return a model for a copy of ``proto``; its external data, if any, is relative to ``folder`` (default: here).

    Raises InputError for a model that is not usable.
    """
    copy = ModelProto()
    copy.CopyFrom(proto)
    folder = Path.cwd() if folder is None else folder
    data = DataFiles(folder, None)
    checks.check_versions(copy, "the model")
    viewed = ((tensor, views.view_of(tensor)) for tensor in tensors(copy))
    checks.check_data(((tensor, view) for tensor, view in viewed if view), data, 0)
    return ModelFile(copy, folder, None, data)


def load(path: str | os.PathLike[str]) -> ModelFile:
    """Load the model file at ``path`` without its weights; raises InputError for anything unusable."""
    path = Path(path)
    if os.path.isdir(path):
        raise InputError(f"{path} is a folder, not a model; give a .onnx file")
    source = open_source(links.target(path), str(path))
    proto, skeleton, own_views = _parse(source, path)
    checks.check_versions(proto, str(path))
    folder, names = links.follow(proto, path)
    data = DataFiles(folder, source, names)
    if names:
        skeleton = serialize(proto)
    # Looking for external data takes a while, and most models have none.
    if len(views.needles(skeleton)) != own_views:
        checks.check_data(views.viewed_tensors(skeleton), data, own_views)
    return ModelFile(proto, folder, path, data)


def _parse(source: Source, path: Path) -> tuple[ModelProto, bytes, int]:
    """Return the skeleton of a model file, parsed and serialised, and the number of weights it views."""
    if source.size == 0:
        raise InputError(f"{path} is empty; get the file again")
    head = source.read(0, min(_HEAD_BYTES, source.size))
    try:
        with source.map() as buf:
            skeleton, own_views = views.strip(buf, source.path.name)
        proto = ModelProto.FromString(skeleton)
    except (WireError, DecodeError) as error:
        raise checks.broken(str(path), head, error) from error
    foreign = None if proto.HasField("graph") else checks.foreign_format(head)
    if foreign is not None:
        raise InputError(f"{path} is {foreign}")
    return proto, skeleton, own_views
