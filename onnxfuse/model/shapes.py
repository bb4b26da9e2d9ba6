"""Types and shapes of values, by onnx's shape inference with data propagation, on a model whose weights stay unread."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import onnx
from onnx import FunctionProto, GraphProto, ModelProto, NodeProto, TypeProto, ValueInfoProto, shape_inference

from onnxfuse.model.graph import Dim, Dims


class TypeInfo(NamedTuple):
    """What is known of a tensor value: its TensorProto data type and its dims."""

    elem_type: int | None
    dims: Dims


UNKNOWN = TypeInfo(None, None)


def infer(proto: ModelProto) -> ModelProto:
    """Return the model with the types and shapes of its values filled in as far as they follow from its inputs.

    What it declares itself of inner values and outputs is left aside first: it may be stale, as where somebody made the
    batch dynamic by editing the inputs alone.  A model that shape inference refuses is returned as it is.
    """
    return infer_further(_undeclared(proto)) or proto


def infer_further(proto: ModelProto) -> ModelProto | None:
    """Return a model with what follows from the types that it declares; None if shape inference refuses it."""
    try:
        return shape_inference.infer_shapes(proto, data_prop=True)
    except (shape_inference.InferenceError, RuntimeError, ValueError):
        return None


def _undeclared(proto: ModelProto) -> ModelProto:
    copy = ModelProto()
    copy.CopyFrom(proto)
    stack = [copy.graph]
    while stack:
        graph = stack.pop()
        del graph.value_info[:]
        for output in graph.output:
            if output.type.HasField("tensor_type"):
                output.type.tensor_type.ClearField("shape")
        for attribute in (a for node in graph.node for a in node.attribute):
            stack.extend([attribute.g] if attribute.HasField("g") else attribute.graphs)
    return copy


def overlay(declared: Mapping[str, TypeInfo], inferred: Mapping[str, TypeInfo]) -> dict[str, TypeInfo]:
    """Return what is known of each value: what was inferred, and where that says nothing, what was declared."""
    names = {**declared, **inferred}
    return {name: _overlay(declared.get(name, UNKNOWN), inferred.get(name, UNKNOWN)) for name in names}


def _overlay(declared: TypeInfo, inferred: TypeInfo) -> TypeInfo:
    elem_type = inferred.elem_type or declared.elem_type
    if inferred.dims is None or declared.dims is None or len(inferred.dims) != len(declared.dims):
        return TypeInfo(elem_type, declared.dims if inferred.dims is None else inferred.dims)
    pairs = zip(inferred.dims, declared.dims, strict=True)
    return TypeInfo(elem_type, tuple(new if _says(new) or old is None else old for new, old in pairs))


def _says(dim: Dim) -> bool:
    """Tell whether an inferred dim is more than a name that inference made up."""
    return isinstance(dim, int) or (dim is not None and not dim.startswith("unk__"))


def made_up(dim: Dim) -> bool:
    """Tell whether a dim is a name that onnx's inference invented."""
    return isinstance(dim, str) and dim.startswith("unk__")


def read_type(type_proto: TypeProto) -> TypeInfo:
    """Return what a TypeProto says of a tensor; UNKNOWN for sequences, optionals and other non-tensors."""
    if not type_proto.HasField("tensor_type"):
        return UNKNOWN
    tensor = type_proto.tensor_type
    dims = tuple(_dim(d) for d in tensor.shape.dim) if tensor.HasField("shape") else None
    return TypeInfo(tensor.elem_type or None, dims)


def _dim(dim: onnx.TensorShapeProto.Dimension) -> Dim:
    if dim.HasField("dim_value"):
        return int(dim.dim_value) if dim.dim_value >= 0 else None
    return str(dim.dim_param) or None


def known_types(graph: GraphProto) -> dict[str, TypeInfo]:
    """Return the types that a graph declares for its inputs, outputs and inner values."""
    infos: Iterable[ValueInfoProto] = (*graph.value_info, *graph.output, *graph.input)
    return {info.name: read_type(info.type) for info in infos}


def value_info(name: str, info: TypeInfo) -> ValueInfoProto:
    """Return a ValueInfoProto that declares `name` to be a tensor of this type."""
    return onnx.helper.make_tensor_value_info(name, info.elem_type or 0, info.dims)


def function_types(
    function: FunctionProto, arguments: Mapping[str, TypeInfo], opsets: Iterable[onnx.OperatorSetIdProto]
) -> dict[str, TypeInfo]:
    """Return the types of the values in a function body when it is called with arguments of these types.

    Nodes with references to the function's attributes are left out: onnx takes these for attributes of value 0.
    """
    inputs = [value_info(name, arguments[name]) for name in function.input if arguments[name].elem_type]
    outputs = [onnx.ValueInfoProto(name=name) for name in function.output]
    nodes = [node for node in function.node if not refers(node)]
    graph = GraphProto(name=function.name, node=nodes, input=inputs, output=outputs)
    model = ModelProto(ir_version=10, graph=graph, opset_import=function.opset_import or opsets)
    return known_types(infer(model).graph)


def meet(infos: Iterable[TypeInfo]) -> TypeInfo:
    """Return what holds of all of several types: unlike element types or ranks are unknown, unlike dims are None."""
    result: TypeInfo | None = None
    for info in infos:
        result = info if result is None else _meet(result, info)
    return result or UNKNOWN


def _meet(first: TypeInfo, second: TypeInfo) -> TypeInfo:
    elem_type = first.elem_type if first.elem_type == second.elem_type else None
    if first.dims is None or second.dims is None or len(first.dims) != len(second.dims):
        return TypeInfo(elem_type, None)
    return TypeInfo(elem_type, tuple(a if a == b else None for a, b in zip(first.dims, second.dims, strict=True)))


def refers(node: NodeProto) -> bool:
    """Tell whether an attribute of a node, or of a node in its graphs, is a reference to one of a function."""
    return any(a.ref_attr_name or any(map(_holds_references, (a.g, *a.graphs))) for a in node.attribute)


def _holds_references(graph: GraphProto) -> bool:
    return any(refers(node) for node in graph.node)
