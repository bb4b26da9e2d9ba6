"""The way back from views to weights: in memory, or as the pieces of a file to be written."""

from __future__ import annotations

from collections.abc import Iterator

from google.protobuf.message import Message
from onnx import ModelProto, TensorProto

from onnxfuse.model.weights import views, wire
from onnxfuse.model.weights.data import DataFiles
from onnxfuse.model.weights.source import Span
from onnxfuse.model.weights.views import View
from onnxfuse.model.weights.wire import Buffer, Piece

_RAW_DATA_KEY = wire.varint(TensorProto.RAW_DATA_FIELD_NUMBER << 3 | wire.DELIMITED)
# Runtimes map large weights into memory page by page; small ones are copied, so that pages would only waste space.
_PAGE_BYTES, _CACHE_LINE_BYTES, _LARGE_BYTES = 4096, 64, 65536


def tensors(message: Message) -> Iterator[TensorProto]:
    """Yield every tensor in a model, graph, function, node or attribute, however deep."""
    if isinstance(message, TensorProto):
        yield message
        return
    fields = message.DESCRIPTOR.fields_by_number
    for number in wire.CHILDREN[message.DESCRIPTOR.name]:
        field = fields[number]
        if field.is_repeated:
            for child in getattr(message, field.name):
                yield from tensors(child)
        elif message.HasField(field.name):
            yield from tensors(getattr(message, field.name))


def inlined(skeleton: ModelProto, data: DataFiles) -> ModelProto:
    """Return a copy of ``skeleton`` with all weights inline; raises InputError."""
    model = ModelProto()
    model.CopyFrom(skeleton)
    for tensor in tensors(model):
        view = views.view_of(tensor)
        if view is not None:
            raw = data.span(view, tensor.name).read()
            views.clear_view(tensor)
            tensor.raw_data = raw
    return model


def inline_pieces(skeleton: bytes, data: DataFiles) -> list[Piece]:
    """Return the serialised skeleton with the views into the model file replaced by what they view.

    External data stays external. Raises InputError.
    """
    return [skeleton] if data.own is None else Packer(data, None).pack(skeleton)


class Packer:
    """Turns a serialised skeleton into the pieces of a model file and of its data file."""

    def __init__(self, data: DataFiles, location: str | None, *, raw: bool = False, own: bool = False) -> None:
        """External data moves to ``location`` if that is given.

        So does large ``raw_data`` of the skeleton if ``raw``, and what it views of the model file if ``own``.
        """
        self.pieces: list[Piece] = []
        self._size = 0
        self._data, self._location, self._raw, self._own = data, location, raw, own
        self._offsets: dict[Span, int] = {}

    def pack(self, skeleton: bytes) -> list[Piece]:
        """Return the pieces of the model file, filling ``pieces`` with those of the data file; raises InputError."""
        places = views.needles(skeleton)

        def worth(start: int, end: int) -> bool:
            return (self._raw and end - start >= views.VIEW_MIN_BYTES) or views.holds_any(places, start, end)

        return wire.rewrite_tensors(skeleton, worth, self._edit)

    def _edit(self, buf: Buffer, start: int, end: int) -> list[Piece] | None:
        found = views.raw_data_of(buf, start, end) if self._raw and self._location else None
        if found is not None:
            raw, spelled = found
            offset = self._append(buf[raw.body : raw.end])
            entries = views.view_fields(str(self._location), offset, raw.end - raw.body, spelled)
            return [buf[start : raw.start], buf[raw.end : end], entries]
        tensor = TensorProto.FromString(buf[start:end])
        view = views.view_of(tensor)
        return None if view is None else self._place(tensor, view)

    def _place(self, tensor: TensorProto, view: View) -> list[Piece] | None:
        own = view.location == self._data.own_name and not self._own
        if self._location is None and not own:
            return None
        span = self._data.span(view, tensor.name)
        if own or self._location is None:
            return _inline(tensor, span)
        if span not in self._offsets:
            self._offsets[span] = self._append(span)
        views.set_view(tensor, self._location, self._offsets[span], len(span))
        return [tensor.SerializeToString()]

    def _append(self, piece: Piece) -> int:
        """Put a piece at the next aligned offset of the data file and return that."""
        alignment = _PAGE_BYTES if len(piece) >= _LARGE_BYTES else _CACHE_LINE_BYTES
        offset = -(-self._size // alignment) * alignment
        self.pieces += [bytes(offset - self._size), piece]
        self._size = offset + len(piece)
        return offset


def _inline(tensor: TensorProto, span: Span) -> list[Piece]:
    """Return the body of a viewed tensor as it is with its bytes inline."""
    views.clear_view(tensor)
    return [tensor.SerializeToString(), _RAW_DATA_KEY + wire.varint(len(span)), span]
