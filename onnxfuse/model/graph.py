"""The editable graph: onnx-graphsurgeon's nodes and tensors, one scope per ONNX graph or function body.

Each `Node` keeps the NodeProto it was read from, so a node that no rule touches is never written anew, and what
onnx-graphsurgeon cannot represent (references to attributes, types, graphs inside attributes, sequence and optional
values) is opaque instead of lost.  That is why the graphs are built here and not by `onnx_graphsurgeon.import_onnx`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias

import onnx_graphsurgeon as gs
from onnx import AttributeProto, FunctionProto, GraphProto, NodeProto, TensorProto
from onnx_graphsurgeon.ir.tensor import LazyValues
from onnx_graphsurgeon.util.misc import SynchronizedList

from onnxfuse.errors import InputError
from onnxfuse.model import attributes, schema
from onnxfuse.model.attributes import Attribute

Dim: TypeAlias = int | str | None
Dims: TypeAlias = tuple[Dim, ...] | None


def _linked(owner: Value | Node, field: str, elements: Sequence[Value | Weight | Node] = ()) -> list[Any]:
    """Return graphsurgeon's list that keeps the other side of an edge up to date.

    It is filled here, and the constructors of graphsurgeon's classes are left out below, because they take two thirds
    of the time of reading a graph.
    """
    made = SynchronizedList.__new__(SynchronizedList)
    made.parent_obj, made.field_name = owner, field
    list.extend(made, elements)
    for element in elements:
        list.append(getattr(element, field), owner)
    return made  # type: ignore[no-any-return]


class Value(gs.Variable):  # type: ignore[misc]
    """A value that is fed or computed; an absent optional input is a value without a name.

    `pinned`: it must stay, since it is a graph output or annotated.  `constant`: it depends on no graph input, so it
    can be computed whenever somebody needs its elements.  `elements`: what is known of those of a computed shape.
    """

    name: str
    inputs: list[Node]
    outputs: list[Node]

    def __init__(self, name: str, elem_type: int | None = None, dims: Dims = None) -> None:
        self.name = name
        self.inputs = _linked(self, "outputs")
        self.outputs = _linked(self, "inputs")
        self.dtype, self.shape, self.type = elem_type, dims, "tensor_type"
        self.pinned = False
        self.constant = not name
        self.elements: tuple[Dim, ...] | None = None

    __setattr__ = object.__setattr__

    __eq__ = object.__eq__
    __hash__ = object.__hash__

    @property
    def elem_type(self) -> int | None:
        """The TensorProto data type; None where it is not known or the value is no tensor."""
        return self.dtype

    @property
    def dims(self) -> Dims:
        """The dims: int, symbol, or None for one that is not known; None if the rank is not known."""
        return self.shape

    @property
    def producer(self) -> Node | None:
        """The node that computes the value; None for what is fed or comes from nowhere."""
        return self.inputs[0] if self.inputs else None


class Weight(gs.Constant):  # type: ignore[misc]
    """An initializer that nobody can override: a view, whose values are read only when asked for."""

    name: str
    outputs: list[Node]
    producer = None

    def __init__(self, tensor: TensorProto) -> None:
        super().__init__(tensor.name, values=_View(tensor))
        self.tensor = tensor
        self.pinned = False
        self.constant = True

    __eq__ = object.__eq__
    __hash__ = object.__hash__

    @property
    def elem_type(self) -> int:
        """The TensorProto data type."""
        return int(self.tensor.data_type)

    @property
    def dims(self) -> tuple[int, ...]:
        """The dims."""
        return tuple(self.tensor.dims)


class _View(LazyValues):  # type: ignore[misc]
    """graphsurgeon's lazy values over a tensor whose bytes may lie in a file; onnxfuse reads it through ModelFile."""

    def __init__(self, tensor: TensorProto) -> None:
        self.tensor, self.shape, self.dtype, self.nbytes = tensor, tuple(tensor.dims), int(tensor.data_type), 0


Tensor: TypeAlias = Value | Weight


class Node(gs.Node):  # type: ignore[misc]
    """A node with its protobuf and the scope it stands in.

    `position`: its place in the file's order, or that of the node it replaces.  `alive`: it stands in its graph.
    `rebuilt`: its protobuf must be brought up to date when the model is written.
    """

    op: str
    name: str
    attrs: dict[str, Attribute]
    inputs: list[Tensor]
    outputs: list[Value]

    def __init__(
        self,
        op: str,
        domain: str,
        scope: Scope,
        inputs: Sequence[Tensor] = (),
        outputs: Sequence[Value] = (),
        attrs: dict[str, Attribute] | None = None,
        name: str = "",
        proto: NodeProto | None = None,
    ) -> None:
        self.op, self.domain, self.name = op, domain, name
        self.attrs = {} if attrs is None else attrs
        self.inputs = _linked(self, "outputs", inputs)
        self.outputs = _linked(self, "inputs", outputs)
        self.scope = scope
        self.proto = proto
        self.position = len(scope.nodes)
        self.alive = True
        self.rebuilt = False

    __setattr__ = object.__setattr__
    __eq__ = object.__eq__
    __hash__ = object.__hash__

    @property
    def opset(self) -> int:
        """The opset version under which the node's operator is read; 0 if its domain is not imported."""
        return self.scope.opsets.get(self.domain, 0)

    def label(self) -> str:
        """Return how to call the node in a message: its name, or its operator and first output."""
        return self.name or f"{self.op} -> {next((v.name for v in self.outputs if v.name), '?')}"

    def detach(self) -> None:
        """Take the node out of its graph: its inputs lose a user, its outputs their producer."""
        self.scope.loosened.extend(self.inputs)
        self.inputs.clear()
        self.outputs.clear()
        self.alive = False


class Scope:
    """One ONNX graph or function body as an editable graph; `owner` is the node that a nested graph belongs to.

    `graph.nodes` is in the file's order.  `inserted` maps a node that was taken out to the nodes that stand in its
    place; `finish` makes that the order of the list.  `added` are new initializers, `dropped` the names of old ones
    that go.  `given` is what the nodes gave when the graph was read.  `loosened`, one list for all scopes of a model,
    are values that have lost a reader.
    """

    def __init__(
        self,
        proto: GraphProto | FunctionProto,
        opsets: dict[str, int],
        path: str,
        parent: Scope | None = None,
        owner: Node | None = None,
    ) -> None:
        self.proto = proto
        self.opsets = opsets
        self.path = path
        self.parent = parent
        self.owner = owner
        self.values: dict[str, Tensor] = {}
        self.inserted: dict[Node, list[Node]] = {}
        self.added: list[TensorProto] = []
        self.dropped: set[str] = set()
        self.given: set[str] = set()
        self.loosened: list[Tensor] = parent.loosened if parent is not None else []
        self.graph = gs.Graph(name=proto.name, opset=self.opset)

    @property
    def opset(self) -> int:
        """The version of the default operator domain."""
        return self.opsets.get("", 1)

    @property
    def is_function(self) -> bool:
        """Whether this is a function body, which can hold no initializers."""
        return isinstance(self.proto, FunctionProto)

    @property
    def nodes(self) -> list[Node]:
        """The nodes in the file's order, those taken out included until `finish`."""
        return self.graph.nodes  # type: ignore[no-any-return]

    def find(self, name: str) -> Tensor | None:
        """Return the value called `name` in this scope or the nearest one around it."""
        scope: Scope | None = self
        while scope is not None:
            if name in scope.values:
                return scope.values[name]
            scope = scope.parent
        return None

    def add(self, node: Node) -> None:
        """Append a node that was read from the file."""
        self.nodes.append(node)
        self.given.update(value.name for value in node.outputs)

    def holder(self, node: Node) -> Node | None:
        """Return the node of this scope that is, or holds in its graphs, a node; None if it stands elsewhere."""
        while node.scope is not self:
            if node.scope.owner is None:
                return None
            node = node.scope.owner
        return node

    def replace(self, node: Node, replacements: list[Node]) -> None:
        """Put nodes in the place of `node`, which has been detached."""
        self.inserted[node] = replacements

    @property
    def changed(self) -> bool:
        """Whether a node was taken out or put in."""
        return bool(self.inserted) or any(not node.alive or node.rebuilt for node in self.nodes)

    def finish(self) -> None:
        """Bring `graph.nodes` up to date."""
        self.graph.nodes = list(self.in_order())
        self.inserted.clear()

    def in_order(self) -> Iterator[Node]:
        """Yield the nodes that stand in the graph now, in the order in which they will be written."""
        stack = list(reversed(self.nodes))
        while stack:
            node = stack.pop()
            if node.alive:
                yield node
            stack.extend(reversed(self.inserted.get(node, ())))


def subgraphs(node: NodeProto) -> Iterator[tuple[str, GraphProto]]:
    """Yield the graphs in the attributes of a node with a name that tells them apart."""
    for attribute in node.attribute:
        if attribute.type == AttributeProto.GRAPH:
            yield attribute.name, attribute.g
        for index, graph in enumerate(attribute.graphs):
            yield f"{attribute.name}[{index}]", graph


def make_node(proto: NodeProto, scope: Scope) -> Node:
    """Read a node into its scope.

    Raises InputError if one of its outputs already has a producer there.
    """
    outputs = [_output(name, scope) for name in proto.output]
    for value in outputs:
        if value.inputs:
            raise InputError(
                f"value '{value.name}' is produced twice, by '{value.inputs[0].label()}' and '{proto.name}': "
                "the model is not valid ONNX; export it again"
            )
    inputs = [_input(name, scope) for name in proto.input]
    attrs = attributes.read_all(proto)
    node = Node(proto.op_type, schema.domain_of(proto.domain), scope, inputs, outputs, attrs, proto.name, proto)
    mark_constant(node)
    return node


def mark_constant(node: Node) -> None:
    """Mark the outputs of a node as constant if it is a pure function of constants."""
    foldable = schema.is_pure(node.op, node.opset, node.domain) and node.op not in schema.UNFOLDED
    if foldable and all(value.constant for value in node.inputs):
        plain = all(not isinstance(a, AttributeProto) or _is_tensor(a) for a in node.attrs.values())
        for value in node.outputs:
            value.constant = plain


def _is_tensor(attribute: AttributeProto) -> bool:
    return attribute.type == AttributeProto.TENSOR and not attribute.ref_attr_name


def _input(name: str, scope: Scope) -> Tensor:
    if not name:
        return Value("")
    found = scope.find(name)
    if found is None:
        found = scope.values[name] = Value(name)
    return found


def _output(name: str, scope: Scope) -> Value:
    if not name:
        return Value("")
    value = scope.values.setdefault(name, Value(name))
    if isinstance(value, Weight):
        raise InputError(f"value '{name}' is both an initializer and the output of a node: the model is not valid ONNX")
    return value
