"""Rewriting tensors inside a serialised ONNX model without parsing the model.

Only the headers of the protobuf wire format (https://protobuf.dev/programming-guides/encoding/) are read, and only in
the messages that can hold the tensors in question, so that a model over a memory map costs neither memory nor time for
its weights. All positions are byte offsets into the buffer.
"""

from __future__ import annotations

import mmap
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from onnxfuse.model.weights.source import Span

Buffer = bytes | mmap.mmap
# A piece of a serialised model: bytes, or what stands for bytes of a file.
Piece = bytes | Span
# Called with the body of a tensor message (buffer, start, end); returns its new body, or None to leave it as it is.
Edit = Callable[[Buffer, int, int], "list[Piece] | None"]
# Says whether a submessage (start, end) may hold a tensor that the edit wants to see.
Worth = Callable[[int, int], bool]

VARINT, FIXED64, DELIMITED, FIXED32 = 0, 1, 2, 5
TENSOR = "TensorProto"
# For each message, the fields through which a tensor can be reached.
CHILDREN: Mapping[str, Mapping[int, str]] = {
    "ModelProto": {7: "GraphProto", 20: "TrainingInfoProto", 25: "FunctionProto"},
    "TrainingInfoProto": {1: "GraphProto", 2: "GraphProto"},
    "FunctionProto": {7: "NodeProto", 11: "AttributeProto"},
    "GraphProto": {1: "NodeProto", 5: TENSOR, 15: "SparseTensorProto"},
    "NodeProto": {5: "AttributeProto"},
    "AttributeProto": {
        5: TENSOR, 6: "GraphProto", 10: TENSOR, 11: "GraphProto", 22: "SparseTensorProto", 23: "SparseTensorProto",
    },
    "SparseTensorProto": {1: TENSOR, 2: TENSOR},
}  # fmt: skip
# protobuf's own parsers give up at this depth.
_MAX_DEPTH = 100


class WireError(ValueError):
    """The bytes are not a protobuf message; ``overrun`` when one runs past the end of its parent."""

    def __init__(self, reason: str, *, overrun: bool = False) -> None:
        super().__init__(reason)
        self.overrun = overrun


class Field(NamedTuple):
    """One field of a message: its bytes are [start, end), its content [body, end)."""

    number: int
    wire_type: int
    start: int
    body: int
    end: int


def read_varint(buf: Buffer, pos: int, end: int) -> tuple[int, int]:
    """Return the varint at ``pos`` and the position behind it; raises WireError."""
    value = shift = 0
    while pos < end:
        byte = buf[pos]
        pos += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, pos
        shift += 7
        if shift >= 70:
            raise WireError(f"the number at byte {pos - 10} has more than 10 bytes")
    raise WireError(f"the data ends inside the number before byte {end}", overrun=True)


def varint(value: int) -> bytes:
    """Encode a number that is not negative."""
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def delimited(number: int, body: bytes) -> bytes:
    """Encode a length-delimited field."""
    return varint(number << 3 | DELIMITED) + varint(len(body)) + body


def fields(buf: Buffer, start: int, end: int) -> Iterator[Field]:
    """Yield the fields of the message in [start, end) in order; raises WireError."""
    pos = start
    while pos < end:
        first = buf[pos]
        key, body = (first, pos + 1) if first < 0x80 else read_varint(buf, pos, end)
        wire_type = key & 7
        if wire_type == DELIMITED:
            length, body = read_varint(buf, body, end)
            stop = body + length
        elif wire_type == VARINT:
            stop = read_varint(buf, body, end)[1]
        else:
            stop = body + _fixed_size(wire_type, pos)
        if stop > end:
            raise WireError(
                f"field {key >> 3} at byte {pos} ends at byte {stop}, behind its parent's end {end}", overrun=True
            )
        if key < 8:
            raise WireError(f"field number 0 at byte {pos}")
        yield Field(key >> 3, wire_type, pos, body, stop)
        pos = stop


def _fixed_size(wire_type: int, pos: int) -> int:
    if wire_type == FIXED32:
        return 4
    if wire_type == FIXED64:
        return 8
    raise WireError(f"wire type {wire_type} at byte {pos}, which ONNX never uses")


def rewrite_tensors(buf: Buffer, worth: Worth, edit: Edit) -> list[Piece]:
    """Return the serialised model ``buf`` in pieces, with ``edit`` applied to every tensor that ``worth`` leads to.

    The lengths of all enclosing messages are put right. Raises WireError.
    """
    return _rewrite(buf, "ModelProto", (0, len(buf)), worth, edit, 0) or [buf[:]]


def _rewrite(
    buf: Buffer, kind: str, bounds: tuple[int, int], worth: Worth, edit: Edit, depth: int
) -> list[Piece] | None:
    if kind == TENSOR:
        return edit(buf, *bounds)
    if depth > _MAX_DEPTH:
        raise WireError(f"messages are nested more than {_MAX_DEPTH} deep at byte {bounds[0]}")
    children = CHILDREN[kind]
    pieces: list[Piece] = []
    kept, end = bounds
    for number, wire_type, start, body, stop in fields(buf, kept, end):
        if wire_type != DELIMITED or number not in children or not worth(body, stop):
            continue
        new = _rewrite(buf, children[number], (body, stop), worth, edit, depth + 1)
        if new is not None:
            header = varint(number << 3 | DELIMITED) + varint(sum(map(len, new)))
            pieces += (buf[kept:start], header, *new)
            kept = stop
    return [*pieces, buf[kept:end]] if pieces else None
