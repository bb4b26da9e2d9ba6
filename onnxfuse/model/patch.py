"""Writing an edited graph back into its protobuf: only what changed, everything else stays as it was read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from onnx import FunctionProto, GraphProto, ModelProto, TensorProto, helper

from onnxfuse.model import attributes
from onnxfuse.model.editable import IR_VERSION_WITH_OVERRIDABLE_INITIALIZERS, EditableModel
from onnxfuse.model.file import ModelFile
from onnxfuse.model.graph import Node, Scope, Weight


def patched(model: EditableModel) -> ModelFile:
    """Return the file with the changes of an editable model in it.

    The editable model is used up by this.
    """
    read = set(_names_read_now(model))
    unused = set(_names_read_before(model.proto)) - read
    weights = {tensor.name for tensor in model.proto.graph.initializer}
    for scope in reversed(model.scopes):  # inner before outer: an outer graph copies the nodes that hold inner ones
        changed = scope.changed
        if changed:
            _write_nodes(scope)
        if isinstance(scope.proto, GraphProto):
            _write_values(
                scope.proto, scope, unused, [tensor for tensor in scope.added if tensor.name in read], changed
            )
    _separate_weights(model.proto, weights)
    return model.file.with_proto(model.proto)


def with_weights_apart(file: ModelFile) -> ModelFile:
    """Return a model below IR version 4 without the weights among its graph inputs; any other as it is.

    Only below that version are they constants although they are listed; a higher opset needs a higher IR version.
    """
    if file.proto.ir_version >= IR_VERSION_WITH_OVERRIDABLE_INITIALIZERS:
        return file
    proto = ModelProto()
    proto.CopyFrom(file.proto)
    _separate_weights(proto, {tensor.name for tensor in proto.graph.initializer})
    return file.with_proto(proto)


def _write_nodes(scope: Scope) -> None:
    scope.finish()
    for node in scope.nodes:
        if node.rebuilt:
            _rebuild(node)
    protos = [node.proto for node in scope.nodes]
    del scope.proto.node[:]
    scope.proto.node.extend(proto for proto in protos if proto is not None)


def _rebuild(node: Node) -> None:
    """Bring a node's protobuf up to date; attributes that it already holds are left alone."""
    proto = node.proto
    assert proto is not None
    proto.op_type, proto.domain, proto.name = node.op, proto.domain or node.domain, node.name
    del proto.input[:]
    proto.input.extend(value.name for value in node.inputs)
    del proto.output[:]
    proto.output.extend(value.name for value in node.outputs)
    if not proto.attribute:
        proto.attribute.extend(attributes.write(name, value) for name, value in sorted(node.attrs.items()))


def _write_values(
    graph: GraphProto, scope: Scope, unused: set[str], added: Sequence[TensorProto], changed: bool
) -> None:
    """Add new initializers, drop those whose last user went, and forget the types of values that are gone.

    `added` are the new ones that are still read: one fold may have made what the next one folded again.
    """
    outputs = {value.name for value in graph.output}
    candidates = unused - outputs
    dropped = scope.dropped | {name for name in candidates if isinstance(scope.values.get(name), Weight)}
    if dropped:
        kept = [tensor for tensor in graph.initializer if tensor.name not in dropped]
        del graph.initializer[:]
        graph.initializer.extend(kept)
    graph.initializer.extend(added)
    if changed or dropped or added:
        gone = dropped | (scope.given - {name for node in graph.node for name in node.output})
        known = [info for info in graph.value_info if info.name not in gone]
        if len(known) < len(graph.value_info):
            del graph.value_info[:]
            graph.value_info.extend(known)


def _separate_weights(proto: ModelProto, weights: set[str]) -> None:
    """Take the weights out of the graph inputs of a changed model below IR version 4, where they had to be listed."""
    if proto.ir_version >= IR_VERSION_WITH_OVERRIDABLE_INITIALIZERS:
        return
    fed = [value for value in proto.graph.input if value.name not in weights]
    del proto.graph.input[:]
    proto.graph.input.extend(fed)
    needed = helper.find_min_ir_version_for(proto.opset_import, ignore_unknown=True)
    proto.ir_version = max(needed, IR_VERSION_WITH_OVERRIDABLE_INITIALIZERS)


def _names_read_before(proto: ModelProto) -> Iterator[str]:
    """Yield every name that a node of any scope reads or a graph gives in a model that has not been written yet."""
    yield from _names_read(proto.graph)
    for function in proto.functions:
        yield from _names_read(function)


def _names_read_now(model: EditableModel) -> Iterator[str]:
    """Yield every name that something in the edited model refers to, training and annotations included."""
    for scope in model.scopes:
        yield from _outputs(scope.proto)
        for node in scope.in_order():
            yield from (value.name for value in node.inputs)
        if isinstance(scope.proto, GraphProto):
            yield from names_annotated(scope.proto)
    yield from names_trained(model.proto)


def names_annotated(graph: GraphProto) -> Iterator[str]:
    """Yield every name that the quantization annotations of a graph speak of."""
    for note in graph.quantization_annotation:
        yield note.tensor_name
        yield from (entry.value for entry in note.quant_parameter_tensor_names)


def names_trained(proto: ModelProto) -> Iterator[str]:
    """Yield every name that the training part of a model speaks of."""
    for info in proto.training_info:
        for graph in (info.initialization, info.algorithm):
            yield from _names_read(graph)
        for binding in (*info.initialization_binding, *info.update_binding):
            yield from (binding.key, binding.value)


def _outputs(graph: GraphProto | FunctionProto) -> Iterable[str]:
    return graph.output if isinstance(graph, FunctionProto) else (value.name for value in graph.output)


def _names_read(graph: GraphProto | FunctionProto) -> Iterator[str]:
    yield from _outputs(graph)
    for node in graph.node:
        yield from node.input
        for attribute in node.attribute:
            if attribute.HasField("g"):
                yield from _names_read(attribute.g)
            for inner in attribute.graphs:
                yield from _names_read(inner)
