"""ONNX attributes as plain Python values, and back.

What has a plain form: FLOAT, INT, STRING (bytes), FLOATS, INTS, STRINGS (tuples).  Everything else (tensors, graphs,
types, references to a function's attribute) stays the AttributeProto it is, so nothing can be lost on the way.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

import numpy as np
from onnx import AttributeProto, NodeProto, TensorProto

Plain: TypeAlias = int | float | bytes | tuple[int, ...] | tuple[float, ...] | tuple[bytes, ...]
Attribute: TypeAlias = Plain | AttributeProto


def read(proto: AttributeProto) -> Attribute:
    """Return the plain value of an attribute, or the attribute itself where there is none."""
    if proto.ref_attr_name:
        return proto
    kind = proto.type
    if kind == AttributeProto.INT:
        return int(proto.i)
    if kind == AttributeProto.FLOAT:
        return float(proto.f)
    if kind == AttributeProto.INTS:
        return tuple(proto.ints)
    if kind == AttributeProto.STRING:
        return bytes(proto.s)
    if kind == AttributeProto.FLOATS:
        return tuple(proto.floats)
    if kind == AttributeProto.STRINGS:
        return tuple(proto.strings)
    return proto


def read_all(node: NodeProto) -> dict[str, Attribute]:
    """Return the attributes of a node by name."""
    return {proto.name: read(proto) for proto in node.attribute}


def write(name: str, value: Attribute) -> AttributeProto:
    """Return an AttributeProto called `name` that holds `value`."""
    proto = AttributeProto()
    if isinstance(value, AttributeProto):
        proto.CopyFrom(value)
        proto.name = name
        return proto
    proto.name = name
    if isinstance(value, tuple):
        _write_list(proto, value)
    elif isinstance(value, int):
        proto.type, proto.i = AttributeProto.INT, value
    elif isinstance(value, float):
        proto.type, proto.f = AttributeProto.FLOAT, value
    else:
        proto.type, proto.s = AttributeProto.STRING, value
    return proto


def _write_list(proto: AttributeProto, values: tuple[int, ...] | tuple[float, ...] | tuple[bytes, ...]) -> None:
    if all(isinstance(value, int) for value in values):
        proto.type = AttributeProto.INTS
        proto.ints.extend(values)
    elif all(isinstance(value, bytes) for value in values):
        proto.type = AttributeProto.STRINGS
        proto.strings.extend(values)
    else:
        proto.type = AttributeProto.FLOATS
        proto.floats.extend(values)


def same(first: Attribute | None, second: Attribute | None) -> bool:
    """Tell whether two attribute values are equal (floats as the float32 they are stored as)."""
    if isinstance(first, AttributeProto) and isinstance(second, AttributeProto):
        return _unnamed(first) == _unnamed(second)
    if isinstance(first, float) and isinstance(second, float):
        return bool(np.float32(first) == np.float32(second))
    return type(first) is type(second) and first == second


def _unnamed(proto: AttributeProto) -> bytes:
    copy = AttributeProto()
    copy.CopyFrom(proto)
    copy.ClearField("name")
    copy.ClearField("doc_string")
    data: bytes = copy.SerializeToString(deterministic=True)
    return data


def constant_tensor(attributes: Mapping[str, Attribute]) -> TensorProto | None:
    """Return the tensor that a Constant node with these attributes produces; None for sparse, string and referenced.

    `value_float` and `value_floats` are float32, `value_int` and `value_ints` are int64 (ONNX operator Constant).
    """
    if len(attributes) != 1:
        return None
    ((name, value),) = attributes.items()
    if isinstance(value, AttributeProto):
        return value.t if name == "value" and value.type == AttributeProto.TENSOR and not value.ref_attr_name else None
    if name in ("value_int", "value_ints"):
        return _tensor(np.asarray(value, np.int64), TensorProto.INT64)
    if name in ("value_float", "value_floats"):
        return _tensor(np.asarray(value, np.float32), TensorProto.FLOAT)
    return None


def _tensor(array: np.ndarray, data_type: int) -> TensorProto:
    return TensorProto(data_type=data_type, dims=array.shape, raw_data=array.tobytes())
