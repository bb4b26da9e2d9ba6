"""One view of a node whatever its opset: arguments in their newest places, attributes with their defaults."""

from __future__ import annotations

import string
from typing import NamedTuple

import numpy as np
from onnx import AttributeProto, helper, numpy_helper

from onnxfuse.model import schema
from onnxfuse.model.attributes import Attribute
from onnxfuse.model.graph import Node, Tensor, Value, Weight


class View(NamedTuple):
    """The arguments and attributes of a node.

    An attribute that became an input at a later opset is shown as that input: a weight without a name.
    """

    arguments: tuple[Tensor, ...]
    attributes: dict[str, Attribute | None]


def view(node: Node) -> View:
    """Return the view of a node; attributes that have no value and no default are None."""
    attributes = {**schema.defaults(node.op, node.opset, node.domain), **node.attrs}
    arguments = list(node.inputs)
    for index, name in schema.moved(node.op, node.opset, node.domain).items():
        value = attributes.pop(name, None)
        arguments += [Value("")] * (index + 1 - len(arguments))
        if value is not None:
            arguments[index] = _argument(node, value)
    if _trains(node):
        attributes["training_mode"] = 1
    return View(tuple(arguments), attributes)


def _trains(node: Node) -> bool:
    """Tell whether it is a BatchNormalization whose further outputs mean training mode, as they did before opset 14."""
    named = sum(bool(value.name) for value in node.outputs)
    return node.op == "BatchNormalization" and not node.domain and node.opset < 14 and named > 1


def canonical_equation(equation: Attribute | None) -> Attribute | None:
    """Return the equation of an Einsum without spaces and with its letters named a, b, c ... in their order."""
    if not isinstance(equation, bytes):
        return equation
    text = equation.decode("utf-8", "replace").replace(" ", "")
    names = dict(zip(dict.fromkeys(c for c in text if c.isalpha()), string.ascii_letters, strict=False))
    return "".join(names.get(c, c) for c in text).encode()


def _argument(node: Node, value: Attribute) -> Tensor:
    if isinstance(value, AttributeProto):
        return Weight(value.t) if value.type == AttributeProto.TENSOR else Value(value.name)
    elem_type = node.inputs[0].elem_type
    if isinstance(value, float) and elem_type is not None:
        return Weight(numpy_helper.from_array(np.asarray(value, helper.tensor_dtype_to_np_dtype(elem_type))))
    return Weight(numpy_helper.from_array(np.asarray(value)))


def axes_rank(node: Node) -> int | None:
    """Return the rank that negative axes of a node count from, None if it is not known."""
    value = node.outputs[0] if node.op == "Unsqueeze" else node.inputs[0]
    return None if value.dims is None else len(value.dims)


def normalise(axes: Attribute | None, rank: int | None) -> Attribute | None:
    """Return axes counted from the last (all negative), where the rank is known."""
    if rank is None:
        return axes
    if isinstance(axes, int):
        return axes if axes < 0 else axes - rank
    if isinstance(axes, tuple):
        return tuple(axis if not isinstance(axis, int) or axis < 0 else axis - rank for axis in axes)  # type: ignore[return-value]
    return axes
