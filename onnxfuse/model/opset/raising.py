"""Walking a model, its nested graphs and its functions to raise their nodes to a newer opset."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache, cached_property, partial
from typing import TypeVar

from onnx import FunctionProto, GraphProto, ModelProto, NodeProto, OperatorSetIdProto, defs, helper

from onnxfuse.errors import OpsetError
from onnxfuse.model import schema, shapes
from onnxfuse.model.file import ModelFile
from onnxfuse.model.opset.adapters import ADAPTERS, NEWEST, OLDEST
from onnxfuse.model.opset.site import Names, Scope, Site, subgraphs

_AnyBody = TypeVar("_AnyBody", GraphProto, FunctionProto)


def raise_opset(model: ModelFile, opset: int) -> ModelFile:
    """Return ``model`` at ``opset`` of the default domain; it is returned as it is when it is there already.

    Names, order, metadata and weights stay; a node changes only where its operator means something else at ``opset``.
    Raises OpsetError, which names the node, when that cannot be done without loss.
    """
    old = _imported(model.proto.opset_import)
    _check_range(old, opset)
    if old == opset:
        return model
    proto = ModelProto()
    proto.CopyFrom(model.proto)
    _Raising(model.proto, proto, opset).model()
    oldest_ir = helper.find_min_ir_version_for(list(proto.opset_import), ignore_unknown=True)
    proto.ir_version = max(proto.ir_version, oldest_ir)
    return model.with_proto(proto)


def _check_range(old: int, new: int) -> None:
    newest = min(NEWEST, defs.onnx_opset_version())
    if old == 0:
        raise OpsetError("the model does not import the default domain, so it has no opset to raise")
    if new < old:
        raise OpsetError(f"opset {old} cannot be lowered to {new}; ask for {old} or more")
    if new > newest and new > old:
        raise OpsetError(f"opset {new} is newer than {newest}, the newest that models are raised to; ask for less")
    if old < OLDEST and new > old:
        raise OpsetError(f"opset {old} is older than {OLDEST}, the oldest that models are raised from; export again")


def _imported(imports: Iterable[OperatorSetIdProto]) -> int:
    return max((entry.version for entry in imports if schema.domain_of(entry.domain) == ""), default=0)


class _Raising:
    """Raises a copy of a model in place."""

    def __init__(self, original: ModelProto, proto: ModelProto, opset: int) -> None:
        self._original, self._proto, self._new = original, proto, opset
        self._names = Names(original)

    @cached_property
    def _typed(self) -> ModelProto:
        """The original with all types and shapes, which few operators need to be raised."""
        return shapes.infer(self._original)

    def model(self) -> None:
        """Raise all graphs and functions."""
        proto = self._proto
        old = _imported(proto.opset_import)
        main = Scope(proto.graph, lambda: self._typed.graph, self._names)
        for info in proto.training_info:
            for graph in (info.initialization, info.algorithm):
                self._body(Scope(graph, partial(_copy, graph), self._names, main), old)
        self._body(main, old)
        self._import(proto.opset_import)
        for function in proto.functions:
            self._function(function)

    def _function(self, function: FunctionProto) -> None:
        old = _imported(function.opset_import)
        if 0 < old < self._new:
            _check_range(old, self._new)
            self._body(Scope(function, partial(_copy, function), self._names), old)
            self._import(function.opset_import)

    def _import(self, imports: Iterable[OperatorSetIdProto]) -> None:
        for entry in imports:
            if schema.domain_of(entry.domain) == "":
                entry.version = self._new

    def _body(self, scope: Scope, old: int) -> None:
        nodes: list[NodeProto] = []
        for index, node in enumerate(scope.body.node):
            for number, graph in enumerate(subgraphs(node)):
                self._body(Scope(graph, partial(_twin, scope, index, number), self._names, scope), old)
            nodes += [node] if self._stays(node, old) else self._raised(node, scope, old)
        if len(nodes) > len(scope.body.node):
            del scope.body.node[:]
            scope.body.node.extend(nodes)

    def _stays(self, node: NodeProto, old: int) -> bool:
        """Say whether a node may stay as it is, whatever its attributes."""
        return bool(schema.domain_of(node.domain)) or _only_widened(node.op_type, old, self._new)

    def _raised(self, node: NodeProto, scope: Scope, old: int) -> list[NodeProto]:
        """Return what stands for a node at the new opset, the node itself changed where it must be."""
        site = Site(node, scope, old, self._new)
        if schema.schema(node.op_type, old) is None:
            raise site.refuse("is no operator of the default domain")
        adapter = ADAPTERS.get(node.op_type)
        if adapter is not None:
            adapter(site)
        _check(site, adapted=adapter is not None)
        constants, scope.new_nodes = scope.new_nodes, []
        return [*constants, *site.before, node, *site.after]


@cache
def _only_widened(op: str, old: int, new: int) -> bool:
    """Say whether all that is valid for an operator at one opset is valid, and means the same, at the other."""
    if 0 < schema.since(op, old) == schema.since(op, new):
        return True
    before, after = schema.schema(op, old), schema.schema(op, new)
    if op in ADAPTERS or before is None or after is None or after.deprecated:
        return False
    was, now = schema.defaults(op, old), schema.defaults(op, new)
    fits = after.min_input <= before.min_input and before.max_input <= after.max_input
    return fits and before.max_output <= after.max_output and was.items() <= now.items()


def _copy(body: _AnyBody) -> _AnyBody:
    copy = type(body)()
    copy.CopyFrom(body)
    return copy


def _twin(scope: Scope, index: int, number: int) -> GraphProto:
    """Return nested graph ``number`` of node ``index`` as shape inference sees it."""
    return subgraphs(scope.typed.node[index])[number]


def _check(site: Site, adapted: bool) -> None:
    """Make sure that a node is valid at the new opset and that its defaults have not changed; raises OpsetError."""
    node = site.node
    new, old = schema.schema(node.op_type, site.new), schema.schema(site.op, site.old)
    if new is None or new.deprecated or old is None:
        raise site.refuse(f"does not exist at opset {site.new}")
    for attribute in node.attribute:
        if attribute.name not in new.attributes and attribute.name in old.attributes:
            raise site.refuse(f"has the attribute {attribute.name!r}, which does not exist at opset {site.new}")
    if not new.min_input <= len(node.input) <= new.max_input or len(node.output) > new.max_output:
        raise site.refuse(
            f"has {len(node.input)} inputs and {len(node.output)} outputs, which opset {site.new} does not allow"
        )
    if not adapted:
        _check_defaults(site)


def _check_defaults(site: Site) -> None:
    old, new = schema.defaults(site.op, site.old), schema.defaults(site.op, site.new)
    for name in old.keys() & new.keys():
        if old[name] != new[name] and not site.has(name):
            raise site.refuse(f"leaves {name!r} to its default, which changed")
