"""JSON that every parser reads: sorted keys, ASCII bytes, no bare NaN or Infinity."""

from __future__ import annotations

import json
import math

_WIDTH = 110

# Without an indent this is C code, many times faster than json's own indented output.
_encode = json.JSONEncoder(sort_keys=True, allow_nan=False).encode


def dumps(value: object) -> str:
    """Render dicts with text keys, lists, tuples and scalars; what fits is one line, and a newline ends the text.

    Numbers that JSON cannot hold become the strings "NaN", "Infinity" and "-Infinity", as protobuf's JSON writes them.
    """
    try:
        return _layout(value, "") + "\n"
    except ValueError:  # there is a NaN or an infinity in it, which is rare
        return _layout(_plain(value), "") + "\n"


def _layout(value: object, margin: str) -> str:
    flat = _encode(value)
    if len(margin) + len(flat) <= _WIDTH or not isinstance(value, (dict, list, tuple)):
        return flat
    inner = margin + "  "
    if isinstance(value, dict):
        lines = [f"{inner}{_encode(key)}: {_layout(value[key], inner)}" for key in sorted(value)]
    else:
        lines = [inner + _layout(item, inner) for item in value]
    opening, closing = "{}" if isinstance(value, dict) else "[]"
    return f"{opening}\n" + ",\n".join(lines) + f"\n{margin}{closing}"


def _plain(value: object) -> object:
    """Copy ``value`` with every float finite or spelled out."""
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return _number(value) if isinstance(value, float) else value


def _number(value: float) -> float | str:
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    return float(value)
