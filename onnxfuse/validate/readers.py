"""What an operator at the end of an input's way says about the values it wants."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from onnx import AttributeProto, NodeProto, TensorProto

from onnxfuse.validate.bodies import Bodies

if TYPE_CHECKING:
    from onnxfuse.validate.facts import Facts, Step

Reader: TypeAlias = "Callable[[Bodies, Step, NodeProto, Facts], None]"

_MOST_CONSTANTS = 64


def read(bodies: Bodies, step: Step, node: NodeProto, index: int, facts: Facts) -> None:
    """Add to ``facts`` what ``node`` says of its input number ``index``."""
    role = _ROLES.get((node.op_type, index))
    if role:
        facts.roles.add(role)
    if node.op_type in _ANY_INPUT_ROLES:
        facts.roles.add(_ANY_INPUT_ROLES[node.op_type])
    reader = _READERS.get((node.op_type, index)) or _ANY_INPUT_READERS.get(node.op_type)
    if reader is not None:
        reader(bodies, step, node, facts)


def attribute(node: NodeProto, name: str) -> AttributeProto | None:
    """Return an attribute of a node by name."""
    return next((item for item in node.attribute if item.name == name), None)


def _axis(node: NodeProto, default: int = 0) -> int:
    found = attribute(node, "axis")
    return default if found is None else found.i


def _bound_by(step: Step, facts: Facts, size: int | str | None) -> None:
    facts.roles.add("index")
    if isinstance(size, str):
        facts.symbols.append(size)
    elif size is not None and size > 0:
        # 0 <= scale * value + offset < size
        facts.bound(-(step.offset // step.scale), (size - 1 - step.offset) // step.scale + 1)


def _index_of(table: int, axis: int | None = None) -> Reader:
    """Return a reader for an index into input ``table``, along ``axis`` (None: the node's attribute)."""

    def reader(bodies: Bodies, step: Step, node: NodeProto, facts: Facts) -> None:
        dims = bodies.dims(step.place, node.input[table]) if table < len(node.input) else None
        along = _axis(node) if axis is None else axis
        known = dims is not None and -len(dims) <= along < len(dims)
        _bound_by(step, facts, dims[along] if dims is not None and known else None)

    return reader


def _one_hot(bodies: Bodies, step: Step, node: NodeProto, facts: Facts) -> None:
    depth = bodies.constant(step.place, node.input[1])
    _bound_by(step, facts, None if depth is None else int(depth.reshape(-1)[0]))


def _compared(bodies: Bodies, step: Step, node: NodeProto, facts: Facts) -> None:
    other = next((name for name in node.input if name != step.name), "")
    values = bodies.constant(step.place, other)
    if values is None:
        if node.op_type != "Equal":
            facts.roles.add("length")
        return
    if values.dtype.kind not in "iuf" or values.size > _MOST_CONSTANTS:
        return
    facts.roles.add("compared")
    for value in values.reshape(-1):
        if np.isfinite(value) and value == int(value) and (int(value) - step.offset) % step.scale == 0:
            facts.constants.append((int(value) - step.offset) // step.scale)


def _cast(_: Bodies, __: Step, node: NodeProto, facts: Facts) -> None:
    target = attribute(node, "to")
    if target is not None and target.i == TensorProto.BOOL:
        facts.roles.add("mask")


def _subtracted(bodies: Bodies, step: Step, node: NodeProto, facts: Facts) -> None:
    """Recognise ``1 - mask``."""
    minuend = bodies.constant(step.place, node.input[0])
    if minuend is not None and minuend.size == 1 and float(minuend.reshape(-1)[0]) == 1.0:
        facts.roles.add("mask")


def _vocabulary(_: Bodies, __: Step, node: NodeProto, facts: Facts) -> None:
    for item in node.attribute:
        if item.name in ("keys_strings", "cats_strings", "pool_strings", "string_vocabulary"):
            facts.words.extend(word.decode(errors="replace") for word in item.strings[:_MOST_CONSTANTS])
        elif item.name in ("keys_int64s", "cats_int64s", "pool_int64s", "int64_vocabulary"):
            facts.constants.extend(item.ints[:_MOST_CONSTANTS])


def _feature(weight: int, weight_axis: int, axis: int, *, grouped: bool = False) -> Reader:
    """Return a reader for an input whose ``axis`` must have the size of a weight's ``weight_axis``."""

    def reader(bodies: Bodies, step: Step, node: NodeProto, facts: Facts) -> None:
        dims = bodies.dims(step.place, node.input[weight]) if weight < len(node.input) else None
        if dims is None or step.axes is None or not -len(dims) <= weight_axis < len(dims):
            return
        size = dims[weight_axis]
        if isinstance(size, int) and size > 0 and -len(step.axes) <= axis < len(step.axes):
            group = attribute(node, "group") if grouped else None
            facts.sizes.setdefault(step.axes[axis], size * (group.i if group else 1))

    return reader


def _gemm(bodies: Bodies, step: Step, node: NodeProto, facts: Facts) -> None:
    swap_a, swap_b = (bool(item and item.i) for item in (attribute(node, "transA"), attribute(node, "transB")))
    _feature(1, 1 if swap_b else 0, 0 if swap_a else 1)(bodies, step, node, facts)


def _matmul(bodies: Bodies, step: Step, node: NodeProto, facts: Facts) -> None:
    dims = bodies.dims(step.place, node.input[1])
    _feature(1, -1 if dims is not None and len(dims) == 1 else -2, -1)(bodies, step, node, facts)


_RNN = ("LSTM", "GRU", "RNN")
_READERS: dict[tuple[str, int], Reader] = {
    ("Gather", 1): _index_of(0),
    ("GatherElements", 1): _index_of(0),
    ("GatherND", 1): _index_of(0, 0),
    ("ScatterElements", 1): _index_of(0),
    ("Scatter", 1): _index_of(0),
    ("ScatterND", 1): _index_of(0, 0),
    ("GatherBlockQuantized", 1): _index_of(0),
    ("EmbedLayerNormalization", 0): _index_of(2, 0),
    ("EmbedLayerNormalization", 1): _index_of(4, 0),
    ("ArrayFeatureExtractor", 1): _index_of(0, -1),
    ("OneHot", 0): _one_hot,
    ("Cast", 0): _cast,
    ("Sub", 1): _subtracted,
    ("Gemm", 0): _gemm,
    ("MatMul", 0): _matmul,
    ("Conv", 0): _feature(1, 1, 1, grouped=True),
    ("ConvTranspose", 0): _feature(1, 0, 1),
    ("BatchNormalization", 0): _feature(1, 0, 1),
    ("InstanceNormalization", 0): _feature(1, 0, 1),
    ("PRelu", 0): _feature(1, 0, 1),
    ("LayerNormalization", 0): _feature(1, -1, -1),
    ("RMSNormalization", 0): _feature(1, -1, -1),
    ("Add", 0): _feature(1, -1, -1),
    ("Sub", 0): _feature(1, -1, -1),
    ("Mul", 0): _feature(1, -1, -1),
    ("Div", 0): _feature(1, -1, -1),
    **{(op, 0): _feature(1, 2, 2) for op in _RNN},
}
_ANY_INPUT_READERS: dict[str, Reader] = {
    **dict.fromkeys(("Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual"), _compared),
    **dict.fromkeys(("CategoryMapper", "DictVectorizer", "LabelEncoder", "OneHotEncoder"), _vocabulary),
    "TfIdfVectorizer": _vocabulary,
}
_ROLES: dict[tuple[str, int], str] = {
    ("ConstantOfShape", 0): "size",
    ("CumSum", 1): "axis",
    ("Expand", 1): "expansion",
    ("Loop", 0): "size",
    ("NonMaxSuppression", 2): "size",
    ("NonMaxSuppression", 3): "fraction",
    ("NonMaxSuppression", 4): "fraction",
    ("OneHot", 1): "size",
    ("Range", 0): "start",
    ("Range", 1): "size",
    ("Range", 2): "step",
    ("Reshape", 1): "shape",
    ("Resize", 2): "factor",
    ("Resize", 3): "size",
    ("Upsample", 1): "factor",
    ("Slice", 1): "start",
    ("Slice", 2): "size",
    ("Slice", 3): "axis",
    ("Slice", 4): "step",
    ("Squeeze", 1): "axis",
    ("Unsqueeze", 1): "axis",
    ("Tile", 1): "size",
    ("TopK", 1): "size",
    ("Trilu", 1): "axis",
    ("ReverseSequence", 1): "length",
    **{(op, 4): "length" for op in _RNN},
    **{(op, 1): "axis" for op in ("ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin")},
}
_ANY_INPUT_ROLES = {"Log": "positive", "Sqrt": "positive", "Reciprocal": "positive", "MatMulInteger": "signed"}
