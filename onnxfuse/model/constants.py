"""The elements of constant values: weights read from where they lie, and whatever is computed from them alone."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from onnx import ModelProto, NodeProto, OperatorSetIdProto, TensorProto, helper

from onnxfuse.model import arithmetic, attributes
from onnxfuse.model.budget import Budget
from onnxfuse.model.file import ModelFile
from onnxfuse.model.graph import Node, Tensor, Value, Weight

# Arrays up to this many elements are remembered; larger ones are read again when they are needed again.
REMEMBERED = 256


class Constants:
    """Reads constant values of one model, and remembers the small ones."""

    def __init__(self, file: ModelFile) -> None:
        self._file = file
        self._small: dict[Tensor, NDArray[Any]] = {}

    def array(self, value: Tensor) -> NDArray[Any]:
        """Return the elements of a constant value, in its own element type and shape.

        Raises InputError if its data cannot be read.
        """
        found = self._small.get(value)
        if found is None:
            found = self._file.read(value.tensor) if isinstance(value, Weight) else self._compute(value)
            if found.size <= REMEMBERED:
                self._small[value] = found
        return found

    def scalar(self, value: Tensor) -> float | int | bool | None:
        """Return the element of a constant value that has just one, whatever its rank; None for any other value."""
        if not value.constant or value.dims is None or any(dim != 1 for dim in value.dims):
            return None
        array = self.array(value)
        if array.dtype.kind in "fiub":
            return array.item()  # type: ignore[no-any-return]
        return float(array.reshape(-1)[0]) if _is_narrow_float(array) else None

    def small(self, value: Tensor) -> NDArray[Any] | None:
        """Return the elements of a constant value if they are few; None otherwise."""
        if not value.constant or value.dims is None:
            return None
        if math.prod(dim if isinstance(dim, int) else REMEMBERED + 1 for dim in value.dims) > REMEMBERED:
            return None
        return self.array(value)

    def _compute(self, value: Value) -> NDArray[Any]:
        assert value.producer is not None, value.name
        tensor = _tensor_of(value.producer)
        if tensor is not None:
            return self._file.read(tensor)
        if value.elements is not None:
            dtype = helper.tensor_dtype_to_np_dtype(value.elem_type or TensorProto.INT64)
            return np.asarray(value.elements, dtype).reshape(() if value.dims == () else -1)
        return evaluate_chain(value, self.array)


def _tensor_of(node: Node) -> TensorProto | None:
    """Return what a Constant node holds; None for other nodes and for strings."""
    return attributes.constant_tensor(node.attrs) if node.op == "Constant" and not node.domain else None


def _is_leaf(value: Tensor) -> bool:
    """Tell whether a constant value is known without computing what it is made of."""
    return value.producer is None or value.elements is not None or _tensor_of(value.producer) is not None


def _is_narrow_float(array: NDArray[Any]) -> bool:
    """Tell whether the elements are of a floating-point type that NumPy itself does not know, such as bfloat16."""
    return array.dtype.name.startswith(("bfloat", "float"))


def evaluate_chain(value: Value, array: Any) -> NDArray[Any]:
    """Compute a constant value by running the nodes above it, down from weights and Constant nodes read by `array`.

    Values of several scopes may take part, and share their names: each gets a number for a name here.
    """
    names: dict[Tensor, str] = {}
    feeds: dict[str, NDArray[Any]] = {}
    nodes: list[NodeProto] = []
    for operand in above(value):
        name = names[operand] = f"v{len(names)}"
        node = operand.producer
        if node is None or _is_leaf(operand):
            feeds[name] = array(operand)
        else:
            names.update((o, f"{name}.{i}") for i, o in enumerate(node.outputs) if o is not operand)
            nodes.append(_plain_node(node, names))
    assert value.producer is not None, value.name
    return run_nodes(nodes, feeds, [names[value]], value.producer.opset)[0]


def above(value: Value) -> Iterator[Tensor]:
    """Yield a value and those it is computed from, operands first, one for each node.

    The chain may be longer than Python can recurse.
    """
    seen: set[Node | Tensor] = set()
    stack: list[tuple[Tensor, bool]] = [(value, False)]
    while stack:
        operand, operands_done = stack.pop()
        giver = operand.producer or operand
        if operands_done:
            yield operand
        elif operand.name and giver not in seen:
            seen.add(giver)
            stack.append((operand, True))
            if operand.producer is not None and not _is_leaf(operand):
                stack.extend((above, False) for above in operand.producer.inputs)


def _plain_node(node: Node, names: Mapping[Tensor, str]) -> NodeProto:
    """Return a NodeProto of the node as it stands in the editable graph, without name, metadata and doc string."""
    proto = NodeProto(op_type=node.op, domain=node.domain)
    proto.input.extend(names.get(value, "") for value in node.inputs)
    proto.output.extend(names[value] for value in node.outputs)
    proto.attribute.extend(attributes.write(name, value) for name, value in node.attrs.items())
    return proto


def run_nodes(
    nodes: list[NodeProto],
    feeds: dict[str, NDArray[Any]],
    wanted: list[str],
    opset: int,
    budget: Budget | None = None,
) -> list[NDArray[Any]]:
    """Run nodes of the default domain and return the wanted values.

    Raises TooMuch before more is computed than `budget` allows.
    """
    plain = arithmetic.compute(nodes, feeds, wanted, budget)
    if plain is not None:
        return plain
    with np.errstate(all="ignore"):
        if budget is None:
            return _referred(nodes, feeds, wanted, opset)
        values = dict(feeds)
        for node in nodes:
            budget.spend_on(node, [values.get(name) for name in node.input], opset)
            names = [name for name in node.output if name]
            read = {name: values[name] for name in node.input if name}
            values.update(zip(names, _referred([node], read, names, opset), strict=True))
        return [values[name] for name in wanted]


def _referred(
    nodes: list[NodeProto], feeds: dict[str, NDArray[Any]], wanted: list[str], opset: int
) -> list[NDArray[Any]]:
    """Run nodes on onnx's reference implementation."""
    from onnx import GraphProto, ValueInfoProto
    from onnx.reference import ReferenceEvaluator

    graph = GraphProto(name="constants", node=nodes)
    graph.input.extend(ValueInfoProto(name=name) for name in feeds)
    graph.output.extend(ValueInfoProto(name=name) for name in wanted)
    opsets = [OperatorSetIdProto(domain="", version=opset)]
    evaluator = ReferenceEvaluator(ModelProto(ir_version=10, graph=graph, opset_import=opsets))
    return [np.asarray(result) for result in evaluator.run(None, feeds)]
