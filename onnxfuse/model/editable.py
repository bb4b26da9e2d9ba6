"""The whole model as something that can be edited: its scopes, its names, and which of its values are constant."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

from onnx import FunctionProto, GraphProto, ModelProto, NodeProto

from onnxfuse.errors import InputError
from onnxfuse.model import schema, shapes
from onnxfuse.model.constants import Constants
from onnxfuse.model.file import ModelFile
from onnxfuse.model.graph import Node, Scope, Tensor, Value, Weight, make_node, subgraphs
from onnxfuse.model.refine import refine, refine_functions
from onnxfuse.model.shapes import TypeInfo

IR_VERSION_WITH_OVERRIDABLE_INITIALIZERS = 4

# More readers than an inner value has in any pattern.
FEW_READERS = 8


class EditableModel:
    """A model's graphs, ready for matching and surgery.

    `proto` is a copy of the file's skeleton; `scopes` holds the main graph first, then each nested graph after the one
    around it, then the bodies of local functions.
    """

    def __init__(self, file: ModelFile, like: EditableModel | None = None) -> None:
        """Read a model; `like` is the same model at another opset, whose types hold for values of the same names."""
        self.file = file
        self._like = [] if like is None else like.scopes
        self.proto = ModelProto()
        self.proto.CopyFrom(file.proto)
        self.scopes: list[Scope] = []
        inferred = shapes.infer(self.proto)
        main = Scope(self.proto.graph, _opsets(self.proto), "")
        self._add_graph(main, self.proto.graph, inferred.graph)
        self.constants = Constants(file)
        refine(self.scopes, inferred, self.constants)
        graphs = len(self.scopes)
        for function in self.proto.functions:  # their inputs are typed by the calls, so these come first
            self._add_function(function)
        refine_functions(self.scopes[graphs:], self.constants)
        self._names = set(self._all_names())

    @property
    def opset(self) -> int:
        """The version of the default operator domain that the model imports."""
        return self.scopes[0].opset

    @property
    def nodes(self) -> Iterator[Node]:
        """All nodes of all scopes, nested ones included."""
        for scope in self.scopes:
            yield from scope.nodes

    def loosened(self, but: Collection[Tensor] = ()) -> list[Node]:
        """Return, once, the nodes that give a value, none of `but`, which has lost a reader since the last call.

        Left out is a value that many still read: it is no inner value of any pattern, and to look at all its readers
        again and again would be slow.
        """
        values = [v for v in self.scopes[0].loosened if 0 < len(v.outputs) <= FEW_READERS and not v.constant]
        self.scopes[0].loosened.clear()
        nodes = dict.fromkeys(value.producer for value in values if value not in but)
        return [node for node in nodes if node is not None and node.alive]

    def fresh(self, base: str) -> str:
        """Return a name that no value, node or initializer in any scope has, and keep it taken."""
        name, count = base, 0
        while name in self._names:
            count += 1
            name = f"{base}_{count}"
        self._names.add(name)
        return name

    def _add_graph(self, scope: Scope, graph: GraphProto, inferred: GraphProto) -> None:
        self.scopes.append(scope)
        types = shapes.overlay(self._declared(scope, graph), shapes.known_types(inferred))
        overridable = {value.name for value in graph.input}
        if self.proto.ir_version < IR_VERSION_WITH_OVERRIDABLE_INITIALIZERS:
            overridable = set()
        for tensor in graph.initializer:
            if tensor.name not in overridable:
                scope.values[tensor.name] = Weight(tensor)
        for name in (*(v.name for v in graph.input), *(s.values.name for s in graph.sparse_initializer)):
            scope.values.setdefault(name, _typed(name, types))
        for node, twin in zip(graph.node, inferred.node, strict=True):
            self._add_node(scope, node, twin, types)
        _pin_outputs(scope, (value.name for value in graph.output))
        for note in graph.quantization_annotation:
            if annotated := scope.find(note.tensor_name):
                annotated.pinned = True

    def _declared(self, scope: Scope, graph: GraphProto) -> dict[str, TypeInfo]:
        """Return what is known of values beforehand: from the same scope of a like model, or as the file says."""
        index = len(self.scopes) - 1
        twin = self._like[index] if index < len(self._like) else None
        if twin is None or twin.path != scope.path:
            return shapes.known_types(graph)
        return {name: TypeInfo(value.elem_type, value.dims) for name, value in twin.values.items()}

    def _add_node(self, scope: Scope, proto: NodeProto, twin: NodeProto, types: dict[str, TypeInfo]) -> None:
        for name in proto.output:
            if name and name not in scope.values:
                scope.values[name] = _typed(name, types)
        node = make_node(proto, scope)
        scope.add(node)
        inferred = dict(subgraphs(twin))
        for attribute, graph in subgraphs(proto):
            path = f"{scope.path}{proto.name or proto.op_type}.{attribute}/"
            inner = Scope(graph, scope.opsets, path, scope, node)
            self._add_graph(inner, graph, inferred.get(attribute, graph))

    def _add_function(self, function: FunctionProto) -> None:
        opsets = _opsets(function) or self.scopes[0].opsets
        scope = Scope(function, opsets, f"function {function.domain}.{function.name}/")
        scope.loosened = self.scopes[0].loosened
        self.scopes.append(scope)
        types = shapes.function_types(function, self._argument_types(function), self.proto.opset_import)
        for name in function.input:
            scope.values[name] = _typed(name, types)
        for node in function.node:
            self._add_node(scope, node, node, types)
        _pin_outputs(scope, function.output)

    def _argument_types(self, function: FunctionProto) -> dict[str, TypeInfo]:
        """Return what all calls of a function agree on about its inputs; nothing if another function calls it."""
        identity = (function.name, schema.domain_of(function.domain))
        inner = {(n.op_type, schema.domain_of(n.domain)) for f in self.proto.functions for n in f.node}
        calls = [] if identity in inner else [node for node in self.nodes if (node.op, node.domain) == identity]
        return {
            name: shapes.meet(
                TypeInfo(call.inputs[i].elem_type, call.inputs[i].dims) for call in calls if i < len(call.inputs)
            )
            for i, name in enumerate(function.input)
        }

    def _all_names(self) -> Iterator[str]:
        for scope in self.scopes:
            yield from scope.values
            yield from (node.name for node in scope.nodes)


def _opsets(owner: ModelProto | FunctionProto) -> dict[str, int]:
    return {schema.domain_of(entry.domain): entry.version for entry in owner.opset_import}


def _typed(name: str, types: dict[str, TypeInfo]) -> Value:
    return Value(name, *types.get(name, shapes.UNKNOWN))


def _pin_outputs(scope: Scope, names: Iterable[str]) -> None:
    for name in names:
        value = scope.find(name)
        if value is None:
            raise InputError(f"graph output '{name}' is computed by no node: the model is not valid ONNX")
        value.pinned = True
