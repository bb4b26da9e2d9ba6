"""What nobody needs: nodes and weights that nothing reads, functions that nothing calls, imports that nothing uses."""

from __future__ import annotations

from collections.abc import Iterator, Set

from onnx import GraphProto, ModelProto

from onnxfuse.model import schema
from onnxfuse.model.editable import EditableModel
from onnxfuse.model.file import ModelFile
from onnxfuse.model.functions import all_nodes, called, graphs_of, key_of
from onnxfuse.model.graph import Node, Scope, Weight
from onnxfuse.model.patch import names_annotated, names_trained
from onnxfuse.rewrite.steps import DEAD_CODE, UNUSED_IMPORT
from onnxfuse.rewrite.trace import Fusion, NodeRecord, records


def remove_dead_nodes(model: EditableModel) -> Iterator[Fusion]:
    """Take out nodes of known operators whose outputs nobody reads, with the graphs they hold; yield the records."""
    for scope in list(reversed(model.scopes)):  # inner readers of an outer value go before what computes it
        for node in reversed(list(scope.in_order())):
            inner = [inner for inner in model.scopes if node in _owners(inner)] if _is_dead(node) else []
            if _is_dead(node) and all(map(_is_known, (n for scope in inner for n in scope.in_order()))):
                before = records([node])
                _detach(model, node, inner)
                yield Fusion(DEAD_CODE, DEAD_CODE, scope.path, before, ())


def _is_dead(node: Node) -> bool:
    return _is_known(node) and not any(value.pinned or value.outputs for value in node.outputs)


def _is_known(node: Node) -> bool:
    """Tell whether all that a node does is to compute its outputs; who knows what an operator of a user's does."""
    return not node.domain and schema.since(node.op, node.opset) > 0


def _owners(scope: Scope | None) -> Iterator[Node]:
    while scope is not None and scope.owner is not None:
        yield scope.owner
        scope = scope.parent


def _detach(model: EditableModel, node: Node, inner: list[Scope]) -> None:
    for scope in inner:
        for held in list(scope.in_order()):
            held.detach()
        model.scopes.remove(scope)
    node.detach()


def drop_dead_weights(model: EditableModel) -> Iterator[Fusion]:
    """Drop initializers that nobody reads or speaks of; yield the records."""
    trained = set(names_trained(model.proto))
    for scope in model.scopes:
        noted = trained | (set(names_annotated(scope.proto)) if isinstance(scope.proto, GraphProto) else set())
        weights = [value for value in scope.values.values() if isinstance(value, Weight)]
        dead = [w.name for w in weights if not (w.outputs or w.pinned or w.name in noted | scope.dropped)]
        if dead:
            scope.dropped.update(dead)
            gone = tuple(NodeRecord(name, "Initializer", (name,)) for name in dead)
            yield Fusion(DEAD_CODE, DEAD_CODE, scope.path, gone, ())


def drop_unused(file: ModelFile, steps: Set[str]) -> tuple[ModelFile, list[Fusion]]:
    """Return a model without the functions that nobody calls and the imports that nobody uses, and the records.

    The default domain's import stays.  The file is returned as it is if there is nothing to do.
    """
    proto = ModelProto()
    proto.CopyFrom(file.proto)
    fusions = [*(_dead_functions(proto) if DEAD_CODE in steps else ())]
    fusions += _unused_imports(proto) if UNUSED_IMPORT in steps else ()
    return (file.with_proto(proto) if fusions else file), fusions


def _dead_functions(proto: ModelProto) -> Iterator[Fusion]:
    kept = called(proto)
    for index in reversed(range(len(proto.functions))):
        function = proto.functions[index]
        if key_of(function) not in kept:
            name = f"{function.domain}.{function.name}"
            del proto.functions[index]
            yield Fusion(DEAD_CODE, DEAD_CODE, "", (NodeRecord(name, "Function", ()),), ())


def _unused_imports(proto: ModelProto) -> Iterator[Fusion]:
    bodies = (*graphs_of(proto), *proto.functions)
    used = {"", *(schema.domain_of(node.domain) for body in bodies for node in all_nodes(body))}
    used.update(schema.domain_of(function.domain) for function in proto.functions)
    for index in reversed(range(len(proto.opset_import))):
        domain = proto.opset_import[index].domain
        if schema.domain_of(domain) not in used:
            del proto.opset_import[index]
            yield Fusion(UNUSED_IMPORT, UNUSED_IMPORT, "", (NodeRecord(domain, "Import", ()),), ())
