"""What is known of the elements of small integer tensors: the shapes that a graph computes while it runs.

An element is a number, a symbol (the name of a dim, or a product of such names), or None.  Elements tell which values
are constant although they are computed from a shape that is only partly known, which computed shapes are the same, and
the dims of what is reshaped.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping
from typing import TypeAlias

from onnx import TensorProto

from onnxfuse.model.constants import Constants
from onnxfuse.model.graph import Dim, Dims, Node, Tensor, Value

Elements: TypeAlias = tuple[Dim, ...] | None

# Joins the names of dims in a product; no exporter's own expressions have it.
TIMES = "\N{MULTIPLICATION SIGN}"

# Longer vectors are no shapes.
MAX_LENGTH = 16

_INTEGERS = frozenset({TensorProto.INT64, TensorProto.INT32, TensorProto.BOOL})


def known_elements(value: Tensor, constants: Constants) -> Elements:
    """Return what is known of the elements of a scalar or vector of integers; None for any other value."""
    if value.elem_type not in _INTEGERS or value.dims is None or len(value.dims) > 1:
        return None
    if isinstance(value, Value) and value.elements is not None:
        return value.elements
    length = value.dims[0] if value.dims else 1
    if not isinstance(length, int) or length > MAX_LENGTH:
        return None
    array = constants.small(value) if value.constant else None
    return (None,) * length if array is None else tuple(int(element) for element in array.reshape(-1))


def compute(node: Node, constants: Constants) -> Elements:
    """Return what is known of the elements of a node's first output, from those of its inputs."""
    handler = _HANDLERS.get(node.op) if not node.domain and node.inputs else None
    value = node.outputs[0] if node.outputs else None
    if handler is None or value is None or value.elem_type not in _INTEGERS:
        return None
    if value.dims is None or len(value.dims) > 1:
        return None
    found = handler(node, constants)
    if found is None or len(found) > MAX_LENGTH or (value.dims == () and len(found) != 1):
        return None
    return found


def _shape(node: Node, constants: Constants) -> Elements:
    dims, start, end = node.inputs[0].dims, node.attrs.get("start", 0), node.attrs.get("end")
    if dims is None or not isinstance(start, int) or not (end is None or isinstance(end, int)):
        return None
    return dims[start:end]


def _same(node: Node, constants: Constants) -> Elements:
    """Elements of a node that only changes rank or integer type."""
    found = known_elements(node.inputs[0], constants)
    length = node.outputs[0].dims[0] if node.outputs[0].dims else 1
    return found if found is not None and length in (None, len(found)) else None


def _gather(node: Node, constants: Constants) -> Elements:
    data, picks = known_elements(node.inputs[0], constants), known_elements(node.inputs[1], constants)
    if data is None or picks is None or node.inputs[0].dims == () or node.attrs.get("axis", 0) not in (0, -1):
        return None
    if not all(isinstance(pick, int) and -len(data) <= pick < len(data) for pick in picks):
        return (None,) * len(picks)
    return tuple(data[pick] for pick in picks if isinstance(pick, int))


def _slice(node: Node, constants: Constants) -> Elements:
    data = known_elements(node.inputs[0], constants)
    bounds = [known_elements(value, constants) for value in node.inputs[1:] if value.name]
    if (
        data is None
        or len(bounds) < 2
        or not all(b is not None and len(b) == 1 and isinstance(b[0], int) for b in bounds)
    ):
        return None
    numbers = [b[0] for b in bounds if b is not None and isinstance(b[0], int)]
    step = numbers[3] if len(numbers) > 3 else 1
    return data[numbers[0] : numbers[1] : step] if step > 0 else None


def _concat(node: Node, constants: Constants) -> Elements:
    parts = [known_elements(value, constants) for value in node.inputs]
    if any(part is None for part in parts):
        return None
    return tuple(element for part in parts if part is not None for element in part)


def _reduce_prod(node: Node, constants: Constants) -> Elements:
    found = known_elements(node.inputs[0], constants)
    if found is None or len(node.inputs) > 1:
        return None
    product: Dim = 1
    for element in found:
        product = _times(product, element)
    return (product,)


def _size(node: Node, constants: Constants) -> Elements:
    product: Dim = 1
    for dim in node.inputs[0].dims or (None,):
        product = _times(product, dim)
    return (1,) if node.inputs[0].dims == () else (product,)


def _not(node: Node, constants: Constants) -> Elements:
    found = known_elements(node.inputs[0], constants)
    return None if found is None else tuple(1 - e if isinstance(e, int) else None for e in found)


def _where(node: Node, constants: Constants) -> Elements:
    lists = [known_elements(value, constants) for value in node.inputs]
    if any(found is None for found in lists):
        return None
    length = max(len(found) for found in lists if found is not None)
    wide = [_widen(found, length) for found in lists if found is not None]
    rows = zip(*wide, strict=True)
    return tuple(None if condition is None else (yes if condition else no) for condition, yes, no in rows)


def _elementwise(combine: Callable[[Dim, Dim], Dim]) -> Callable[[Node, Constants], Elements]:
    def handler(node: Node, constants: Constants) -> Elements:
        first, second = (known_elements(value, constants) for value in node.inputs[:2])
        if first is None or second is None:
            return None
        length = max(len(first), len(second))
        return tuple(combine(a, b) for a, b in zip(_widen(first, length), _widen(second, length), strict=True))

    return handler


def _widen(found: tuple[Dim, ...], length: int) -> tuple[Dim, ...]:
    return found * length if len(found) == 1 else found + (None,) * (length - len(found))


def _times(first: Dim, second: Dim) -> Dim:
    if isinstance(first, int) and isinstance(second, int):
        return first * second
    if first == 1 or second == 1:
        return second if first == 1 else first
    if isinstance(first, str) and isinstance(second, str):
        return TIMES.join(sorted([*first.split(TIMES), *second.split(TIMES)]))
    return None


def _plus(first: Dim, second: Dim) -> Dim:
    if isinstance(first, int) and isinstance(second, int):
        return first + second
    return second if first == 0 else first if second == 0 else None


def _minus(first: Dim, second: Dim) -> Dim:
    if isinstance(first, int) and isinstance(second, int):
        return first - second
    return first if second == 0 else None


def _over(first: Dim, second: Dim) -> Dim:
    if isinstance(first, int) and isinstance(second, int) and second:
        return int(math.copysign(1, first * second)) * (abs(first) // abs(second)) if first else 0
    return first if second == 1 else None


def _equal(first: Dim, second: Dim) -> Dim:
    if isinstance(first, int) and isinstance(second, int):
        return int(first == second)
    number = first if isinstance(first, int) else second
    symbolic = isinstance(first, str) or isinstance(second, str)
    return 0 if symbolic and isinstance(number, int) and number < 0 else None  # a dim is never negative


_HANDLERS: Mapping[str, Callable[[Node, Constants], Elements]] = {
    "Shape": _shape,
    "Identity": _same,
    "Cast": _same,
    "Unsqueeze": _same,
    "Squeeze": _same,
    "Reshape": _same,
    "Gather": _gather,
    "Slice": _slice,
    "Concat": _concat,
    "ReduceProd": _reduce_prod,
    "Size": _size,
    "Not": _not,
    "Where": _where,
    "Mul": _elementwise(_times),
    "Add": _elementwise(_plus),
    "Sub": _elementwise(_minus),
    "Div": _elementwise(_over),
    "Equal": _elementwise(_equal),
}


def shaped_dims(node: Node, constants: Constants) -> Dims:
    """Return the dims of a value that a node shapes by a computed shape, as far as its elements tell them."""
    if node.op == "Pad" and not node.domain:
        return _padded(node, constants)
    position = {"Reshape": 1, "Expand": 1, "ConstantOfShape": 0}.get(node.op)
    if position is None or node.domain or len(node.inputs) <= position:
        return None
    wanted, data = known_elements(node.inputs[position], constants), node.inputs[0].dims
    if wanted is None or node.inputs[position].dims == ():
        return None
    if node.op == "Reshape":
        return _reshaped(data, wanted, node.attrs.get("allowzero", 0) == 1)
    return _expanded(data, wanted) if node.op == "Expand" else tuple(wanted)


def _reshaped(data: Dims, wanted: tuple[Dim, ...], allow_zero: bool) -> Dims:
    dims: list[Dim] = []
    for axis, element in enumerate(wanted):
        copied = element == 0 and not allow_zero
        dims.append((data[axis] if data is not None and axis < len(data) else None) if copied else element)
    if -1 in dims:
        at = dims.index(-1)
        dims[at] = _quotient(data, dims[:at] + dims[at + 1 :])
    return tuple(dims)


def _quotient(data: Dims, others: list[Dim]) -> Dim:
    """Return the one dim that is left when a value of known dims takes the other dims; None if that is not known."""
    if data is None or None in data or None in others:
        return None
    number, symbols = _factors(data)
    divisor, taken = _factors(tuple(others))
    rest = symbols - taken
    if taken - symbols or not divisor or number % divisor:
        return None
    if not rest:
        return number // divisor
    return TIMES.join(sorted(rest.elements())) if number == divisor else None


def _padded(node: Node, constants: Constants) -> Dims:
    data = node.inputs[0].dims
    pads = known_elements(node.inputs[1], constants) if len(node.inputs) in (2, 3) else None
    if data is None or pads is None or len(pads) != 2 * len(data):
        return None
    return tuple(_plus(_plus(dim, pads[axis]), pads[axis + len(data)]) for axis, dim in enumerate(data))


def _factors(dims: tuple[Dim, ...]) -> tuple[int, Counter[str]]:
    numbers = math.prod(dim for dim in dims if isinstance(dim, int))
    return numbers, Counter(name for dim in dims if isinstance(dim, str) for name in dim.split(TIMES))


def _expanded(data: Dims, wanted: tuple[Dim, ...]) -> Dims:
    if data is None:
        return None
    rank = max(len(data), len(wanted))
    pairs = zip((1,) * (rank - len(data)) + data, (1,) * (rank - len(wanted)) + wanted, strict=True)
    return tuple(b if a == 1 else a if b in (1, a) or (isinstance(a, int) and a > 1) else None for a, b in pairs)
