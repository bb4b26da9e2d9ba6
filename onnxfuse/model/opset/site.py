"""What an adapter knows of the node it changes, and what it may put beside it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cached_property

import numpy as np
from onnx import FunctionProto, GraphProto, ModelProto, NodeProto, TensorProto, helper, numpy_helper

from onnxfuse.errors import OpsetError
from onnxfuse.model.shapes import UNKNOWN, TypeInfo, known_types

Body = GraphProto | FunctionProto


class Names:
    """Gives out names that no value or node of a model has."""

    def __init__(self, proto: ModelProto) -> None:
        self._proto = proto

    @cached_property
    def _taken(self) -> set[str]:
        bodies: list[Body] = [self._proto.graph, *self._proto.functions]
        for info in self._proto.training_info:
            bodies += [info.initialization, info.algorithm]
        return {name for body in bodies for name in _names(body)}

    def fresh(self, wish: str) -> str:
        """Return ``wish``, with a number behind it if that is taken."""
        name, number = wish, 1
        while name in self._taken:
            name, number = f"{wish}_{number}", number + 1
        self._taken.add(name)
        return name


def _names(body: Body) -> Iterator[str]:
    if isinstance(body, GraphProto):
        yield from (value.name for values in (body.input, body.output, body.initializer) for value in values)
        yield from (sparse.values.name for sparse in body.sparse_initializer)
    else:
        yield from body.input
    for node in body.node:
        yield node.name
        yield from node.output
        for graph in subgraphs(node):
            yield from _names(graph)


def subgraphs(node: NodeProto) -> list[GraphProto]:
    """Return the graphs in a node's attributes, in order."""
    graphs: list[GraphProto] = []
    for attribute in node.attribute:
        if attribute.HasField("g"):
            graphs.append(attribute.g)
        graphs += attribute.graphs
    return graphs


class Scope:
    """A graph or function body being raised, with what is known of its values.

    ``typed`` gives the same body after shape inference, ``outer`` is the scope around a nested graph.
    """

    def __init__(self, body: Body, typed: Callable[[], Body], names: Names, outer: Scope | None = None) -> None:
        self.body, self._infer, self.names, self.outer = body, typed, names, outer
        self.constants: dict[tuple[str, bytes], str] = {}
        self.new_nodes: list[NodeProto] = []

    @cached_property
    def typed(self) -> Body:
        """The body as it was before raising, with all types and shapes that can be inferred."""
        return self._infer()

    @cached_property
    def _types(self) -> dict[str, TypeInfo]:
        if isinstance(self.typed, FunctionProto):
            return {}
        initializers = {t.name: TypeInfo(t.data_type, tuple(t.dims)) for t in self.typed.initializer}
        return known_types(self.typed) | initializers

    @cached_property
    def _tensors(self) -> dict[str, TensorProto]:
        tensors = {
            n.output[0]: a.t
            for n in self.body.node
            if n.op_type == "Constant"
            for a in n.attribute
            if a.name == "value" and n.output
        }
        if isinstance(self.body, GraphProto):
            fed = {info.name for info in self.body.input}
            tensors |= {tensor.name: tensor for tensor in self.body.initializer if tensor.name not in fed}
        return tensors

    def type_of(self, value: str) -> TypeInfo:
        """Return what is known of a value of this or an outer scope."""
        if value in self._types or self.outer is None:
            return self._types.get(value, UNKNOWN)
        return self.outer.type_of(value)

    def tensor(self, value: str) -> np.ndarray | None:
        """Return the value of a small constant, None for anything else."""
        found = self._tensors.get(value)
        if found is None:
            return None if self.outer is None else self.outer.tensor(value)
        return None if found.data_location == TensorProto.EXTERNAL else numpy_helper.to_array(found)

    def constant(self, array: np.ndarray, wish: str) -> str:
        """Return the name of a new constant of this scope, shared by all that ask for the same one."""
        tensor = numpy_helper.from_array(array)
        key = (f"{tensor.data_type} {list(tensor.dims)}", tensor.raw_data)
        if key not in self.constants:
            self.constants[key] = tensor.name = self.names.fresh(wish)
            if isinstance(self.body, GraphProto):
                self.body.initializer.append(tensor)
            else:
                self.new_nodes.append(helper.make_node("Constant", [], [tensor.name], tensor.name, value=tensor))
        return self.constants[key]


class Site:
    """One node being raised from ``old`` to ``new``; adapters change ``node`` and put others ``before``, ``after``."""

    def __init__(self, node: NodeProto, scope: Scope, old: int, new: int) -> None:
        self.node, self.scope, self.old, self.new = node, scope, old, new
        self.op = node.op_type
        self.before: list[NodeProto] = []
        self.after: list[NodeProto] = []

    def crosses(self, version: int) -> bool:
        """Say whether the node is raised from below ``version`` to it or beyond."""
        return self.old < version <= self.new

    def refuse(self, reason: str) -> OpsetError:
        """Return the error that the node cannot be raised."""
        label = self.node.name or ", ".join(self.node.output)
        return OpsetError(
            f"opset {self.old} cannot be raised to {self.new} without loss: {self.op} node {label!r} {reason}"
        )

    def has(self, name: str) -> bool:
        """Say whether the node has an attribute."""
        return any(attribute.name == name for attribute in self.node.attribute)

    def get(self, name: str, default: object = None) -> object:
        """Return the value of an attribute, ``default`` if it is not there; raises OpsetError for a reference."""
        for attribute in self.node.attribute:
            if attribute.name == name:
                if attribute.ref_attr_name:
                    raise self.refuse(f"takes {name!r} from its function's attributes")
                return helper.get_attribute_value(attribute)
        return default

    def take(self, name: str) -> object:
        """Remove an attribute and return its value, None if it is not there; raises OpsetError for a reference."""
        value = self.get(name)
        kept = [attribute for attribute in self.node.attribute if attribute.name != name]
        if len(kept) < len(self.node.attribute):
            del self.node.attribute[:]
            self.node.attribute.extend(kept)
        return value

    def put(self, name: str, value: object) -> None:
        """Set an attribute."""
        self.take(name)
        self.node.attribute.append(helper.make_attribute(name, value))

    def set_input(self, index: int, name: str) -> None:
        """Make ``name`` the node's input ``index``, which so far was left out."""
        while len(self.node.input) <= index:
            self.node.input.append("")
        self.node.input[index] = name

    def integers(self, index: int, values: object, wish: str) -> None:
        """Make an int64 constant the node's input ``index``."""
        self.set_input(index, self.scope.constant(np.asarray(values, np.int64), self._wish(wish)))

    def number(self, index: int, value: object, wish: str) -> None:
        """Make a scalar of the type of the node's first input its input ``index``; raises OpsetError."""
        elem_type = self.scope.type_of(self.node.input[0]).elem_type
        if elem_type is None:
            raise self.refuse(f"has {wish!r} as an attribute, and the type it must get as an input is unknown")
        with np.errstate(over="ignore"):
            array = np.asarray(value, np.float32).astype(helper.tensor_dtype_to_np_dtype(elem_type))
        self.set_input(index, self.scope.constant(array, self._wish(wish)))

    def _wish(self, name: str) -> str:
        return f"{self.node.output[0]}/{name}"

    def fresh(self, name: str) -> str:
        """Return a new name made of the first output's and ``name``."""
        return self.scope.names.fresh(self._wish(name))
