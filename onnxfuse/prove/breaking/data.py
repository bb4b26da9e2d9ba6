"""Breaking one constant, or the shape or constness of one value, at a time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from onnx import GraphProto, TensorProto, TensorShapeProto, ValueInfoProto, helper, numpy_helper

from onnxfuse.prove.breaking.structure import Base, Breakage
from onnxfuse.prove.sides.draw import draw, is_float


def of_data(base: Base) -> Iterator[Breakage]:
    """Yield the breakages of constants, weights and the shapes of what is fed."""
    for tensor in _constants(base.graph):
        yield from _other_numbers(base, tensor)
        yield from _fed(base, tensor)
        yield from _other_shapes(base, tensor)
    for info in base.graph.input:
        yield from _other_inputs(base, info)
        yield from _unknown(base, info)


def _constants(graph: GraphProto) -> Iterator[TensorProto]:
    """Yield what is constant: initializers, and the tensors of Constant nodes under the name of the node's output."""
    yield from graph.initializer
    for node in graph.node:
        if node.op_type == "Constant":
            tensor = TensorProto()
            tensor.CopyFrom(node.attribute[0].t)
            tensor.name = node.output[0]
            yield tensor


def _put(graph: GraphProto, tensor: TensorProto | None, name: str) -> None:
    """Let an initializer stand for what was constant under a name; None: nothing does."""
    for node in [node for node in graph.node if node.op_type == "Constant" and node.output[0] == name]:
        graph.node.remove(node)
    for old in [old for old in graph.initializer if old.name == name]:
        graph.initializer.remove(old)
    if tensor is not None:
        graph.initializer.append(tensor)


def _with(base: Base, what: str, name: str, array: NDArray[Any]) -> Breakage:
    tensor = numpy_helper.from_array(np.ascontiguousarray(array).reshape(array.shape), name)
    return Breakage(what, base.changed(_put, tensor, name))


def _other_numbers(base: Base, tensor: TensorProto) -> Iterator[Breakage]:
    array = numpy_helper.to_array(tensor)
    name = tensor.name
    if is_float(array):
        wide = array.astype(np.float64)
        for factor in (1.02, 1.5, -1.0):
            yield _with(
                base, f"'{name}' is {factor} times as large", name, np.asarray(wide * factor).astype(array.dtype)
            )
        if array.size == 1:
            row = np.linspace(1.0, 1.25, _last_dim(base)) * wide.reshape(-1)[0]
            yield _with(base, f"'{name}' is not one number", name, row.astype(array.dtype))
            yield _with(base, f"'{name}' is double", name, array.astype(np.float64))
    elif array.dtype.kind == "i" and array.size:
        for moved in (array - 1, array + 1, np.append(array.reshape(-1), array.reshape(-1)[:1] - 1)):
            yield _with(base, f"'{name}' is {moved.tolist()}", name, np.asarray(moved).astype(array.dtype))


def _last_dim(base: Base) -> int:
    dims = base.graph.input[0].type.tensor_type.shape.dim if base.graph.input else []
    return int(dims[-1].dim_value) if dims else 2


def _fed(base: Base, tensor: TensorProto) -> Iterator[Breakage]:
    info = helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims)
    array = numpy_helper.to_array(tensor)
    # A value near the old one: what is fed may be anything, and that of a whole number must still make sense.
    other = np.asarray(array.astype(np.float64) * 1.5 + 0.25).astype(array.dtype) if is_float(array) else array
    feeds = {tensor.name: other}

    def feed(graph: GraphProto) -> None:
        _put(graph, None, tensor.name)
        graph.input.append(info)

    def override(graph: GraphProto) -> None:
        _put(graph, tensor, tensor.name)
        graph.input.append(info)

    yield Breakage(f"'{tensor.name}' is a graph input", base.changed(feed), feeds)
    yield Breakage(f"'{tensor.name}' is an initializer that can be overridden", base.changed(override), feeds)


def _other_shapes(base: Base, tensor: TensorProto) -> Iterator[Breakage]:
    array = numpy_helper.to_array(tensor)
    for shape in _shapes(array.shape):
        copies = -(-int(np.prod(shape)) // max(1, array.size))
        flat = np.tile(array.reshape(-1), copies)[: int(np.prod(shape))]
        yield _with(base, f"'{tensor.name}' has shape {list(shape)}", tensor.name, flat.reshape(shape))


def _shapes(shape: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    """Yield shapes that are not the given one, but could stand in its place somewhere."""
    found = [(1, *shape), (2, *shape), (1, 1, 1, *shape), (*shape, 1), shape[1:], ()]
    for axis, dim in enumerate(shape):
        found += [(*shape[:axis], other, *shape[axis + 1 :]) for other in (1, 2, dim + 1)]
    yield from dict.fromkeys(other for other in found if other != shape)


def _dims(info: ValueInfoProto) -> tuple[int, ...]:
    return tuple(dim.dim_value for dim in info.type.tensor_type.shape.dim)


def _other_inputs(base: Base, info: ValueInfoProto) -> Iterator[Breakage]:
    for shape in _shapes(_dims(info)):
        other = helper.make_tensor_value_info(info.name, info.type.tensor_type.elem_type, shape)
        yield Breakage(f"'{info.name}' has shape {list(shape)}", base.changed(_declare, other))


def _declare(graph: GraphProto, info: ValueInfoProto) -> None:
    """Declare an input anew; the shapes of outputs, which may depend on it, are forgotten."""
    next(i for i in graph.input if i.name == info.name).CopyFrom(info)
    for output in graph.output:
        del output.type.tensor_type.shape.dim[:]
        output.type.tensor_type.ClearField("shape")


def _unknown(base: Base, info: ValueInfoProto) -> Iterator[Breakage]:
    """Declare that nothing is known of a shape or of one dim, and feed what the guards would have refused."""
    shape, elem_type = _dims(info), info.type.tensor_type.elem_type
    generator = np.random.default_rng(len(shape))
    loose = ValueInfoProto(name=info.name)
    loose.type.tensor_type.elem_type = elem_type
    for other in (shape, *_shapes(shape)):
        feeds = {info.name: draw(other, elem_type, None, generator)}
        what = f"the shape of '{info.name}' is not declared, and is {list(other)}"
        yield Breakage(what, base.changed(_declare, loose), feeds)
    for axis, dim in enumerate(shape):
        vague = ValueInfoProto()
        vague.CopyFrom(info)
        vague.type.tensor_type.shape.dim[axis].CopyFrom(TensorShapeProto.Dimension(dim_param="n"))
        for length in dict.fromkeys((dim, 1, dim + 1)):
            actual = (*shape[:axis], length, *shape[axis + 1 :])
            feeds = {info.name: draw(actual, elem_type, None, generator)}
            what = f"dim {axis} of '{info.name}' is not declared, and is {length}"
            yield Breakage(what, base.changed(_declare, vague), feeds)
