"""The plain operators that folding mostly needs, in NumPy.

onnx's reference implementation has all operators, but importing it takes a fifth of the time of optimizing a small
model; it computes what is not found here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from math import ceil, prod
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from onnx import AttributeProto, NodeProto, TensorProto, numpy_helper

from onnxfuse.model import attributes, schema
from onnxfuse.model.attributes import Attribute
from onnxfuse.model.budget import Budget

Array: TypeAlias = NDArray[Any]
_Attributes: TypeAlias = Mapping[str, Attribute]
_Operator: TypeAlias = Callable[[_Attributes, Sequence[Array]], Array]

_TYPES = {
    TensorProto.FLOAT: np.float32, TensorProto.DOUBLE: np.float64, TensorProto.FLOAT16: np.float16,
    TensorProto.INT32: np.int32, TensorProto.INT64: np.int64, TensorProto.BOOL: np.bool_,
}  # fmt: skip
_DTYPES = frozenset(map(np.dtype, _TYPES.values()))


class _Unknown(Exception):
    """Something here is not among the plain operators."""


def compute(
    nodes: Iterable[NodeProto], feeds: Mapping[str, Array], wanted: Sequence[str], budget: Budget | None = None
) -> list[Array] | None:
    """Run nodes in order and return the wanted values.

    None if an operator, an attribute or a type is not a plain one, or if the operands do not fit together.  Raises
    TooMuch before more is computed than `budget` allows.
    """
    values, left = dict(feeds), budget and replace(budget)  # what is not finished here costs nothing
    try:
        with np.errstate(all="ignore"):
            for node in nodes:
                values[node.output[0]] = _run(node, values, left)
    except (_Unknown, ValueError, IndexError, OverflowError):
        return None
    return [values[name] for name in wanted]


def _run(node: NodeProto, values: Mapping[str, Array], budget: Budget | None) -> Array:
    operator, known = _OPERATORS.get(node.op_type, (None, frozenset()))
    given = attributes.read_all(node)
    if operator is None or node.domain or len(node.output) != 1 or "" in node.input or not known.issuperset(given):
        raise _Unknown
    operands = [values[name] for name in node.input]
    if any(operand.dtype not in _DTYPES for operand in operands):
        raise _Unknown
    if budget is not None:
        budget.spend(node.op_type, _GROWING.get(node.op_type, _as_many)(given, operands))
    return np.asarray(operator(given, operands))


def _elementwise(function: Callable[..., Array], kinds: str, count: int) -> _Operator:
    """Return the operator for operands of one type; `kinds` are the NumPy kinds for which the function is ONNX's."""

    def operator(given: _Attributes, operands: Sequence[Array]) -> Array:
        if len(operands) != count or len({a.dtype for a in operands}) != 1 or operands[0].dtype.kind not in kinds:
            raise _Unknown
        return function(*operands)

    return operator


def _constant(given: _Attributes, operands: Sequence[Array]) -> Array:
    tensor = attributes.constant_tensor(given)
    if tensor is None or tensor.data_type not in _TYPES or tensor.data_location == TensorProto.EXTERNAL:
        raise _Unknown
    return numpy_helper.to_array(tensor)


def _constant_of_shape(given: _Attributes, operands: Sequence[Array]) -> Array:
    value = given.get("value")
    if isinstance(value, AttributeProto):
        fill = _constant({"value": value}, ())
        return np.full(tuple(operands[0]), fill.reshape(-1)[0], fill.dtype)
    return np.zeros(tuple(operands[0]), np.float32)


def _reshape(given: _Attributes, operands: Sequence[Array]) -> Array:
    data, shape = _pair(operands)
    if given.get("allowzero"):
        return data.reshape(tuple(shape))
    return data.reshape([data.shape[i] if size == 0 else size for i, size in enumerate(shape.tolist())])


def _flatten(given: _Attributes, operands: Sequence[Array]) -> Array:
    (data,) = operands
    axis = _number(given, "axis", 1)
    axis += data.ndim if axis < 0 else 0
    return data.reshape(int(np.prod(data.shape[:axis])), int(np.prod(data.shape[axis:])))


def _reduction(function: Callable[..., Array]) -> _Operator:
    """Return the operator that reduces all axes, or those of a second operand."""

    def operator(given: _Attributes, operands: Sequence[Array]) -> Array:
        axes = tuple(operands[1].reshape(-1).tolist()) if len(operands) == 2 else None
        if axes == () or operands[0].dtype.kind not in "fi":
            raise _Unknown
        return np.asarray(function(operands[0], axis=axes, keepdims=bool(given.get("keepdims", 1))))

    return operator


def _divide(given: _Attributes, operands: Sequence[Array]) -> Array:
    first, second = _pair(operands)
    if first.dtype != second.dtype or first.dtype.kind not in "fi" or (first.dtype.kind == "i" and not second.all()):
        raise _Unknown
    if first.dtype.kind == "f":
        return np.divide(first, second)
    return np.asarray(np.sign(first) * np.sign(second) * (np.abs(first) // np.abs(second)))  # ONNX rounds towards zero


def _range(given: _Attributes, operands: Sequence[Array]) -> Array:
    if any(operand.dtype != np.int64 or operand.ndim for operand in operands):
        raise _Unknown
    return np.arange(*(int(operand) for operand in operands), dtype=np.int64)


def _where(given: _Attributes, operands: Sequence[Array]) -> Array:
    condition, yes, no = operands
    if condition.dtype != np.bool_ or yes.dtype != no.dtype:
        raise _Unknown
    return np.where(condition, yes, no)


def _slice(given: _Attributes, operands: Sequence[Array]) -> Array:
    """Slice by starts, ends, axes and steps, which ONNX clamps as Python does, backward steps apart."""
    data, starts, ends, *more = (operand.tolist() if index else operand for index, operand in enumerate(operands))
    axes = more[0] if more else list(range(len(starts)))
    steps = more[1] if len(more) > 1 else [1] * len(starts)
    if any(step <= 0 for step in steps):
        raise _Unknown
    picked = [slice(None)] * data.ndim
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
        picked[axis] = slice(start, end, step)
    return data[tuple(picked)]


def _expand(given: _Attributes, operands: Sequence[Array]) -> Array:
    data, shape = _pair(operands)
    return np.broadcast_to(data, np.broadcast_shapes(data.shape, tuple(shape.tolist())))


def _unsqueeze(given: _Attributes, operands: Sequence[Array]) -> Array:
    axes = _axes(given, operands)
    if axes is None:
        raise _Unknown
    return np.expand_dims(operands[0], axes)


def _squeeze(given: _Attributes, operands: Sequence[Array]) -> Array:
    return np.squeeze(operands[0], _axes(given, operands))


def _axes(given: _Attributes, operands: Sequence[Array]) -> tuple[int, ...] | None:
    """Return the axes, which are an attribute or the second operand."""
    axes = given.get("axes")
    if len(operands) == 2:
        return tuple(operands[1].reshape(-1).tolist())
    return axes if isinstance(axes, tuple) else None  # type: ignore[return-value]


def _shape(given: _Attributes, operands: Sequence[Array]) -> Array:
    end = given.get("end")
    shape = operands[0].shape[_number(given, "start", 0) : end if isinstance(end, int) else None]
    return np.array(shape, np.int64)


def _concat(given: _Attributes, operands: Sequence[Array]) -> Array:
    if "axis" not in given or len({operand.dtype for operand in operands}) != 1:
        raise _Unknown
    return np.concatenate(operands, _number(given, "axis", 0))


def _gather(given: _Attributes, operands: Sequence[Array]) -> Array:
    data, indices = _pair(operands)
    return np.take(data, indices, _number(given, "axis", 0))


def _transpose(given: _Attributes, operands: Sequence[Array]) -> Array:
    return np.transpose(operands[0], given.get("perm"))  # type: ignore[arg-type]


def _cast(given: _Attributes, operands: Sequence[Array]) -> Array:
    if given.get("to") not in _TYPES:
        raise _Unknown
    return operands[0].astype(_TYPES[given["to"]])  # type: ignore[index]


def _as_many(given: _Attributes, operands: Sequence[Array]) -> int:
    """Return how many elements a result has that is no larger than the largest operand."""
    return max((operand.size for operand in operands), default=1)


def _broadcast(given: _Attributes, operands: Sequence[Array]) -> int:
    return prod(np.broadcast_shapes(*(operand.shape for operand in operands)))


def _filled(given: _Attributes, operands: Sequence[Array]) -> int:
    return prod(map(int, operands[0]))


def _expanded(given: _Attributes, operands: Sequence[Array]) -> int:
    data, shape = _pair(operands)
    return prod(np.broadcast_shapes(data.shape, tuple(shape.tolist())))


def _ranged(given: _Attributes, operands: Sequence[Array]) -> int:
    start, limit, delta = (int(operand) for operand in operands)
    return ceil((limit - start) / delta) if delta else 0


def _concatenated(given: _Attributes, operands: Sequence[Array]) -> int:
    return sum(int(operand.size) for operand in operands)


def _gathered(given: _Attributes, operands: Sequence[Array]) -> int:
    data, indices = _pair(operands)
    return int(data.size // max(1, data.shape[_number(given, "axis", 0)]) * indices.size)


def _multiplied(given: _Attributes, operands: Sequence[Array]) -> int:
    """Return how many elements a matrix product has: rows of the first for each column of the second."""
    first, second = _pair(operands)
    columns = second.shape[-1] if second.ndim > 1 else 1
    batch = prod(np.broadcast_shapes(first.shape[:-2], second.shape[:-2]))
    rows = first.shape[-2] if first.ndim > 1 else 1
    return int(batch * rows * columns)


def _pair(operands: Sequence[Array]) -> tuple[Array, Array]:
    if len(operands) != 2:
        raise _Unknown
    return operands[0], operands[1]


def _number(given: _Attributes, name: str, default: int) -> int:
    value = given.get(name, default)
    return value if isinstance(value, int) else default


# Each with the attributes that it takes into account; ONNX divides integers unlike NumPy.
_OPERATORS: dict[str, tuple[_Operator, frozenset[str]]] = {
    "Add": (_elementwise(np.add, "fi", 2), frozenset()),
    "Sub": (_elementwise(np.subtract, "fi", 2), frozenset()),
    "Mul": (_elementwise(np.multiply, "fi", 2), frozenset()),
    "Div": (_divide, frozenset()),
    "Abs": (_elementwise(np.abs, "fi", 1), frozenset()),
    "Max": (_elementwise(np.maximum, "fi", 2), frozenset()),
    "Min": (_elementwise(np.minimum, "fi", 2), frozenset()),
    "And": (_elementwise(np.logical_and, "b", 2), frozenset()),
    "Or": (_elementwise(np.logical_or, "b", 2), frozenset()),
    "Not": (_elementwise(np.logical_not, "b", 1), frozenset()),
    "Equal": (_elementwise(np.equal, "fib", 2), frozenset()),
    "Less": (_elementwise(np.less, "fi", 2), frozenset()),
    "LessOrEqual": (_elementwise(np.less_equal, "fi", 2), frozenset()),
    "Greater": (_elementwise(np.greater, "fi", 2), frozenset()),
    "GreaterOrEqual": (_elementwise(np.greater_equal, "fi", 2), frozenset()),
    "Where": (_where, frozenset()),
    "Neg": (_elementwise(np.negative, "fi", 1), frozenset()),
    "Sqrt": (_elementwise(np.sqrt, "f", 1), frozenset()),
    "Reciprocal": (_elementwise(np.reciprocal, "f", 1), frozenset()),
    "Identity": (_elementwise(np.asarray, "fib", 1), frozenset()),
    "Cast": (_cast, frozenset({"to"})),
    "Concat": (_concat, frozenset({"axis"})),
    "Constant": (_constant, frozenset({"value", "value_float", "value_floats", "value_int", "value_ints"})),
    "ConstantOfShape": (_constant_of_shape, frozenset({"value"})),
    "Expand": (_expand, frozenset()),
    "Flatten": (_flatten, frozenset({"axis"})),
    "Gather": (_gather, frozenset({"axis"})),
    "MatMul": (_elementwise(np.matmul, "f", 2), frozenset()),
    "Range": (_range, frozenset()),
    "ReduceMax": (_reduction(np.max), frozenset({"keepdims"})),
    "ReduceMin": (_reduction(np.min), frozenset({"keepdims"})),
    "ReduceProd": (_reduction(np.prod), frozenset({"keepdims"})),
    "ReduceSum": (_reduction(np.sum), frozenset({"keepdims"})),
    "Reshape": (_reshape, frozenset({"allowzero"})),
    "Shape": (_shape, frozenset({"start", "end"})),
    "Size": (lambda given, operands: np.array(operands[0].size, np.int64), frozenset()),
    "Slice": (_slice, frozenset()),
    "Squeeze": (_squeeze, frozenset({"axes"})),
    "Transpose": (_transpose, frozenset({"perm"})),
    "Unsqueeze": (_unsqueeze, frozenset({"axes"})),
}

# How many elements the result has, of operators that can give more than their largest operand.
_GROWING: dict[str, Callable[[_Attributes, Sequence[Array]], int]] = {
    **dict.fromkeys(_OPERATORS.keys() & schema.BROADCASTING, _broadcast),
    "Concat": _concatenated,
    "ConstantOfShape": _filled,
    "Expand": _expanded,
    "Gather": _gathered,
    "MatMul": _multiplied,
    "Range": _ranged,
}
