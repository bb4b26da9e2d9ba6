"""The elements of constant values: weights read from where they lie, and whatever is computed from them alone."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray
from onnx import ModelProto, NodeProto, OperatorSetIdProto

from onnxfuse.model import attributes
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

    def scalar(self, value: Tensor) -> float | int | None:
        """Return the element of a constant value that has just one, whatever its rank; None for any other value."""
        if not value.constant or value.dims is None or any(dim != 1 for dim in value.dims):
            return None
        element = self.array(value).reshape(-1)[0]
        return element.item() if np.issubdtype(element.dtype, np.number) else float(element)

    def small(self, value: Tensor) -> NDArray[Any] | None:
        """Return the elements of a constant value if they are few; None otherwise."""
        if not value.constant or value.dims is None:
            return None
        if math.prod(dim if isinstance(dim, int) else REMEMBERED + 1 for dim in value.dims) > REMEMBERED:
            return None
        return self.array(value)

    def _compute(self, value: Value) -> NDArray[Any]:
        node = value.producer
        assert node is not None, value.name
        if node.op == "Constant" and (tensor := attributes.constant_tensor(node.attrs)) is not None:
            return self._file.read(tensor)
        return evaluate_chain(value, self.array)


def evaluate_chain(value: Value, array: Any) -> NDArray[Any]:
    """Compute a constant value by running the nodes above it, down from weights and Constant nodes read by `array`."""
    nodes: list[NodeProto] = []
    feeds: dict[str, NDArray[Any]] = {}
    _collect(value, array, nodes, feeds, set())
    node = value.producer
    assert node is not None, value.name
    return run_nodes(nodes, feeds, [value.name], node.opset)[0]


def _collect(value: Tensor, array: Any, nodes: list[NodeProto], feeds: dict[str, Any], seen: set[Node]) -> None:
    node = value.producer
    if not value.name:
        return
    if node is None or node.op == "Constant":
        feeds[value.name] = array(value)
    elif node not in seen:
        seen.add(node)
        for operand in node.inputs:
            _collect(operand, array, nodes, feeds, seen)
        nodes.append(plain_node(node))


def plain_node(node: Node) -> NodeProto:
    """Return a NodeProto of the node as it stands in the editable graph, without name, metadata and doc string."""
    proto = NodeProto(op_type=node.op, domain=node.domain)
    proto.input.extend(value.name for value in node.inputs)
    proto.output.extend(value.name for value in node.outputs)
    proto.attribute.extend(attributes.write(name, value) for name, value in node.attrs.items())
    return proto


def run_nodes(
    nodes: list[NodeProto], feeds: dict[str, NDArray[Any]], wanted: list[str], opset: int
) -> list[NDArray[Any]]:
    """Run nodes of the default domain by onnx's reference implementation and return the wanted values."""
    from onnx import GraphProto, ValueInfoProto
    from onnx.reference import ReferenceEvaluator

    graph = GraphProto(name="constants", node=nodes)
    graph.input.extend(ValueInfoProto(name=name) for name in feeds)
    graph.output.extend(ValueInfoProto(name=name) for name in wanted)
    opsets = [OperatorSetIdProto(domain="", version=opset)]
    evaluator = ReferenceEvaluator(ModelProto(ir_version=10, graph=graph, opset_import=opsets))
    with np.errstate(all="ignore"):
        return [np.asarray(result) for result in evaluator.run(None, feeds)]
