"""JSON that every parser reads: sorted keys, ASCII bytes, no bare NaN or Infinity."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence


def dumps(value: object) -> str:
    """Render ``value`` as indented JSON with a final newline; equal values give equal text.

    Numbers that JSON cannot hold become the strings "NaN", "Infinity" and "-Infinity", as protobuf's JSON writes them.
    """
    return json.dumps(_plain(value), indent=2, sort_keys=True, allow_nan=False) + "\n"


def _plain(value: object) -> object:
    """Copy ``value`` with every float finite or spelled out."""
    if isinstance(value, float):
        return _number(value)
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_plain(item) for item in value]
    return value


def _number(value: float) -> float | str:
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    return float(value)
