"""Operators that copy or move elements, where they do nothing: shape and every element's place stay as they are."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from onnxfuse.match.view import view
from onnxfuse.model.constants import Constants
from onnxfuse.model.graph import Node, Tensor

# From here on an end of a Slice means "to the last"; exporters write the greatest number of 32 or 64 bits.
_TO_THE_LAST = 2**31 - 1


def does_nothing(node: Node, constants: Constants) -> bool:
    """Tell whether the only output of a node is known to equal its first input, and to have the same shape."""
    test = None if node.domain else _TESTS.get(node.op)
    return test is not None and bool(node.inputs) and len(node.outputs) == 1 and test(node, constants)


def _same_dims(node: Node, constants: Constants) -> bool:
    before, after = node.inputs[0].dims, node.outputs[0].dims
    return before is not None and None not in before and before == after


def _only_one(node: Node, constants: Constants) -> bool:
    return len(node.inputs) == 1


def _is_in_order(node: Node, constants: Constants) -> bool:
    perm, dims = node.attrs.get("perm"), node.inputs[0].dims
    if isinstance(perm, tuple):
        return list(perm) == list(range(len(perm)))
    return dims is not None and len(dims) <= 1


def _pads_nothing(node: Node, constants: Constants) -> bool:
    pads = _integers(node, 1, constants)
    return bool(pads) and not any(pads or ())


def _repeats_once(node: Node, constants: Constants) -> bool:
    repeats = _integers(node, 1, constants)
    return repeats is not None and all(count == 1 for count in repeats)


def _keeps_all(node: Node, constants: Constants) -> bool:
    starts, ends, steps = (_integers(node, index, constants) for index in (1, 2, 4))
    forward = all(step == 1 for step in steps) if steps is not None else not _has(node, 4)
    if not forward or starts is None or ends is None:
        return False
    whole = not any(starts) and all(end >= _TO_THE_LAST for end in ends)
    return whole or _same_dims(node, constants)


def _has(node: Node, index: int) -> bool:
    return index < len(node.inputs) and bool(node.inputs[index].name)


def _integers(node: Node, index: int, constants: Constants) -> tuple[int, ...] | None:
    """Return the whole numbers of an argument, which may be an attribute at the node's opset; None if not constant."""
    arguments: tuple[Tensor, ...] = view(node).arguments
    value = arguments[index] if index < len(arguments) else None
    if value is None or not value.constant:
        return None
    array = constants.small(value)
    return None if array is None or array.dtype.kind != "i" else tuple(array.reshape(-1).tolist())


_TESTS: Mapping[str, Callable[[Node, Constants], bool]] = {
    "Concat": _only_one,
    "Expand": _same_dims,
    "Flatten": _same_dims,
    "Max": _only_one,
    "Min": _only_one,
    "Pad": _pads_nothing,
    "Reshape": _same_dims,
    "Slice": _keeps_all,
    "Split": lambda node, constants: True,
    "Squeeze": _same_dims,
    "Sum": _only_one,
    "Tile": _repeats_once,
    "Transpose": _is_in_order,
}
OPERATORS = frozenset(_TESTS)
