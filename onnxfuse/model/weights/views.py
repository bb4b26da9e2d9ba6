"""Weights as views: a tensor whose bytes lie in a file is an external-data entry (location, offset, length).

ONNX has these entries for weights kept beside the model. onnxfuse uses the same entries, with the model file's own name
as the location, for weights that lie inside the model file: the *skeleton* of a model is the model with all large
``raw_data`` replaced so.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from typing import NamedTuple

from onnx import StringStringEntryProto, TensorProto

from onnxfuse.errors import InputError
from onnxfuse.model.weights import wire
from onnxfuse.model.weights.wire import Buffer, Piece

# Smaller tensors are cheaper to parse than to view.
VIEW_MIN_BYTES = 1024
_RAW_DATA = TensorProto.RAW_DATA_FIELD_NUMBER
_EXTERNAL_DATA = TensorProto.EXTERNAL_DATA_FIELD_NUMBER
_DATA_LOCATION = TensorProto.DATA_LOCATION_FIELD_NUMBER
_IS_EXTERNAL = wire.varint(_DATA_LOCATION << 3 | wire.VARINT) + wire.varint(TensorProto.EXTERNAL)
# How the value b"location" of a string field is written; every external-data entry holds it.
_NEEDLE = b"\x08location"


class View(NamedTuple):
    """Where a tensor's bytes lie; a ``length`` of None means up to the end of the file."""

    location: str
    offset: int
    length: int | None


def view_of(tensor: TensorProto) -> View | None:
    """Return where the bytes of an external tensor lie, None for any other; raises InputError."""
    if tensor.data_location != TensorProto.EXTERNAL:
        return None
    entries = {entry.key: entry.value for entry in tensor.external_data}
    try:
        length = int(entries["length"]) if "length" in entries else None
        view = View(entries["location"], int(entries.get("offset", "0")), length)
    except (KeyError, ValueError) as error:
        raise InputError(
            f"tensor {tensor.name!r}: its external data entry has no location or no number where one "
            "must be; export the model again"
        ) from error
    if view.offset < 0 or (length is not None and length < 0):
        raise InputError(
            f"tensor {tensor.name!r}: its external data has a negative offset or length; export the model again"
        )
    return view


def set_view(tensor: TensorProto, location: str, offset: int, length: int) -> None:
    """Make ``tensor`` a view; entries with other keys stay, but for the checksum of the former file."""
    others = [entry for entry in tensor.external_data if entry.key not in ("location", "offset", "length", "checksum")]
    del tensor.external_data[:]
    for key, value in (("location", location), ("offset", str(offset)), ("length", str(length))):
        tensor.external_data.add(key=key, value=value)
    tensor.external_data.extend(others)
    tensor.data_location = TensorProto.EXTERNAL


def clear_view(tensor: TensorProto) -> None:
    """Undo what `strip` has done to a tensor, but for its bytes."""
    spelled = [entry.key for entry in tensor.external_data] == ["location", "length", "offset"]
    tensor.ClearField("external_data")
    tensor.ClearField("data_location")
    if spelled:
        tensor.data_location = TensorProto.DEFAULT


def strip(buf: Buffer, location: str) -> tuple[bytes, int]:
    """Return the skeleton of the serialised model ``buf`` and the number of tensors made views into ``location``.

    Raises wire.WireError.
    """
    count = 0

    def edit(buf: Buffer, start: int, end: int) -> list[Piece] | None:
        nonlocal count
        found = raw_data_of(buf, start, end)
        if found is None:
            return None
        count += 1
        raw, spelled = found
        return [
            buf[start : raw.start],
            buf[raw.end : end],
            view_fields(location, raw.body, raw.end - raw.body, spelled),
        ]

    pieces = wire.rewrite_tensors(buf, lambda start, end: end - start >= VIEW_MIN_BYTES, edit)
    return b"".join(piece for piece in pieces if isinstance(piece, bytes)), count


def raw_data_of(buf: Buffer, start: int, end: int) -> tuple[wire.Field, bool] | None:
    """Return the large ``raw_data`` of the tensor in [start, end), and whether its data_location is spelled out.

    None for a tensor that has no such data, or is external already, or is written in an unusual way.
    """
    raw = None
    spelled = False
    for field in wire.fields(buf, start, end):
        if field.number == _RAW_DATA and field.wire_type == wire.DELIMITED and raw is None:
            raw = field
        elif field.number == _DATA_LOCATION and buf[field.body : field.end] == b"\0":
            spelled = True
        elif field.number in (_RAW_DATA, _EXTERNAL_DATA, _DATA_LOCATION):
            return None
    return (raw, spelled) if raw and raw.end - raw.body >= VIEW_MIN_BYTES else None


def view_fields(location: str, offset: int, length: int, spelled: bool = False) -> bytes:
    """Encode the fields of a view. The order of its keys tells `clear_view` if data_location had been spelled out."""
    pairs = [("location", location), ("offset", str(offset)), ("length", str(length))]
    if spelled:
        pairs[1:] = reversed(pairs[1:])
    encoded = (StringStringEntryProto(key=key, value=value).SerializeToString() for key, value in pairs)
    return b"".join(wire.delimited(_EXTERNAL_DATA, body) for body in encoded) + _IS_EXTERNAL


def needles(skeleton: bytes) -> list[int]:
    """Return the places, in order, at which an external-data entry may lie."""
    places = []
    place = skeleton.find(_NEEDLE)
    while place >= 0:
        places.append(place)
        place = skeleton.find(_NEEDLE, place + len(_NEEDLE))
    return places


def holds_any(places: list[int], start: int, end: int) -> bool:
    """Say whether one of the ordered ``places`` lies in [start, end)."""
    index = bisect_left(places, start)
    return index < len(places) and places[index] < end


def viewed_tensors(skeleton: bytes) -> Iterator[tuple[TensorProto, View]]:
    """Yield (a copy of) every external tensor of a serialised model with its view; raises InputError."""
    places = needles(skeleton)
    found: list[TensorProto] = []

    def collect(buf: Buffer, start: int, end: int) -> None:
        found.append(TensorProto.FromString(buf[start:end]))

    if places:
        wire.rewrite_tensors(skeleton, lambda start, end: holds_any(places, start, end), collect)
    for tensor in found:
        view = view_of(tensor)
        if view is not None:
            yield tensor, view
