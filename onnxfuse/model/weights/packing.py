"""The way back from views to weights: in memory, or as the pieces of a file to be written."""

from __future__ import annotations

from collections.abc import Iterator

from google.protobuf.message import Message
from onnx import ModelProto, TensorProto

from onnxfuse.model.weights import views, wire
from onnxfuse.model.weights.data import DataFiles
from onnxfuse.model.weights.source import Span
from onnxfuse.model.weights.wire import Buffer, Piece

_RAW_DATA_KEY = wire.varint(TensorProto.RAW_DATA_FIELD_NUMBER << 3 | wire.DELIMITED)


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
    if data.own_name is None:
        return [skeleton]
    places = views.needles(skeleton)

    def edit(buf: Buffer, start: int, end: int) -> list[Piece] | None:
        tensor = TensorProto.FromString(buf[start:end])
        view = views.view_of(tensor)
        return None if view is None or view.location != data.own_name else inline(tensor, data.span(view, tensor.name))

    return wire.rewrite_tensors(skeleton, lambda start, end: views.holds_any(places, start, end), edit)


def inline(tensor: TensorProto, span: Span) -> list[Piece]:
    """Return the body of a viewed tensor as it is with its bytes inline."""
    views.clear_view(tensor)
    return [tensor.SerializeToString(), _RAW_DATA_KEY + wire.varint(len(span)), span]
