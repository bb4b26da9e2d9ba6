"""The element types of ONNX by the names that ONNX text uses."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from onnx import TensorProto

# "float", "float16", "int64" ... to the number that TensorProto has for it.
ELEMENT_TYPES: Final[Mapping[str, int]] = {
    name.lower(): int(number) for name, number in TensorProto.DataType.items() if number
}
