"""A model that has one of everything that ONNX can say, most of which other tools lose."""

from __future__ import annotations

import numpy as np
import onnx
from google.protobuf.message import Message
from onnx import AttributeProto, GraphProto, ModelProto, NodeProto, SparseTensorProto, TensorProto, helper, numpy_helper

LARGE = 700
# Field 1000 with the value "kept", which no version of ONNX has.
UNKNOWN_FIELD = b"\xc2\x3e\x04kept"
ODD_TYPES = (
    "BFLOAT16", "FLOAT16", "FLOAT8E4M3FN", "FLOAT8E5M2FNUZ", "INT4", "UINT4", "FLOAT4E2M1", "COMPLEX64", "BOOL",
)  # fmt: skip


def tensor(name: str, size: int = LARGE, dtype: str = "FLOAT", seed: int = 0) -> TensorProto:
    """Return a tensor of ``size`` small whole numbers, held as raw data."""
    values = np.random.default_rng(seed).integers(0, 2, size)
    array = values.astype(helper.tensor_dtype_to_np_dtype(TensorProto.DataType.Value(dtype)))
    return numpy_helper.from_array(array, name)


def sparse(name: str, size: int = LARGE) -> SparseTensorProto:
    """Return a sparse tensor whose values and indices are both large."""
    indices = numpy_helper.from_array(np.arange(size, dtype=np.int64), f"{name}_indices")
    return helper.make_sparse_tensor(tensor(name, size), indices, [2 * size])


def note(message: Message, text: str) -> None:
    """Give a message a metadata entry, a doc string and a field that nobody knows."""
    message.metadata_props.add(key="note", value=text)
    message.doc_string = f"about {text}"
    message.MergeFromString(UNKNOWN_FIELD)


def body(name: str) -> GraphProto:
    """Return a nested graph that captures ``x`` and holds a large weight and a constant node with another."""
    nodes = [
        helper.make_node("Constant", [], [f"{name}_c"], value=tensor(f"{name}_value")),
        helper.make_node("Add", [f"{name}_w", f"{name}_c"], [f"{name}_sum"]),
        helper.make_node("Mul", ["x", f"{name}_sum"], [f"{name}_y"]),
    ]
    result = helper.make_tensor_value_info(f"{name}_y", TensorProto.FLOAT, [LARGE])
    graph = helper.make_graph(nodes, name, [], [result], [tensor(f"{name}_w")])
    note(graph, name)
    return graph


def odd_node() -> NodeProto:
    """Return a node of a custom domain with an attribute of every kind that holds messages."""
    node = helper.make_node("Odd", ["x", "", "seq"], ["odd"], "odd_node", domain="com.example", overload="v2")
    optional = helper.make_optional_type_proto(helper.make_tensor_type_proto(TensorProto.FLOAT, None))
    for name, value in (
        ("type", optional), ("types", [optional, optional]),
        ("graphs", [body("first"), body("second")]), ("sparse", sparse("odd_sparse")),
        ("sparses", [sparse("odd_sparse_0"), sparse("odd_sparse_1")]),
        ("tensors", [tensor("odd_0"), tensor("odd_1", 3)]), ("strings", ["a", "b"]),
    ):  # fmt: skip
        node.attribute.append(helper.make_attribute(name, value))
    node.attribute.append(AttributeProto(name="empty", type=AttributeProto.INTS))
    node.device_configurations.add(configuration_id="two", pipeline_stage=1)
    return node


def function() -> onnx.FunctionProto:
    """Return a local function with a large constant, a referenced attribute and metadata."""
    constant = helper.make_node("Constant", [], ["w"], value=tensor("function_w"))
    nodes = [constant, helper.make_node("Add", ["a", "w"], ["b"])]
    leaky = helper.make_node("LeakyRelu", ["b"], ["c"])
    leaky.attribute.add(name="alpha", ref_attr_name="slope", type=AttributeProto.FLOAT)
    imports = [helper.make_opsetid("", 18)]
    made = helper.make_function("local", "F", ["a"], ["c"], [*nodes, leaky], imports, ["slope"])
    made.value_info.append(helper.make_tensor_value_info("b", TensorProto.FLOAT, [LARGE]))
    note(made, "function")
    return made


def graph() -> GraphProto:
    """Return the graph of `model`."""
    sequence = helper.make_sequence_type_proto(helper.make_tensor_type_proto(TensorProto.FLOAT, None))
    optional = helper.make_optional_type_proto(sequence)
    typed = helper.make_node("Optional", [], ["none"], "optional_node")
    typed.attribute.append(helper.make_attribute("type", helper.make_tensor_type_proto(TensorProto.FLOAT, [1])))
    nodes = [
        helper.make_node("If", ["flag"], ["chosen"], "if_node", then_branch=body("then"), else_branch=body("else")),
        helper.make_node("F", ["chosen"], ["called"], "call", domain="local", slope=0.5),
        helper.make_node("Add", ["called", "w"], ["y"], "add"),
        odd_node(), typed,
    ]  # fmt: skip
    for node in nodes:
        note(node, node.name)
    inputs = [
        helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n"]),
        helper.make_tensor_value_info("flag", TensorProto.BOOL, []),
        helper.make_tensor_value_info("w", TensorProto.FLOAT, [LARGE]),
        helper.make_value_info("seq", sequence), helper.make_value_info("maybe", optional),
    ]  # fmt: skip
    outputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n"]) for name in ("y", "odd")]
    made = helper.make_graph(nodes, "main", inputs, outputs, weights(), value_info=[
        helper.make_tensor_value_info("chosen", TensorProto.FLOAT, ["n"]), helper.make_value_info("none", optional),
    ], sparse_initializer=[sparse("sparse")])  # fmt: skip
    made.input[0].metadata_props.add(key="note", value="x")
    made.input[0].type.denotation = "TENSOR"
    annotation = made.quantization_annotation.add(tensor_name="w")
    annotation.quant_parameter_tensor_names.add(key="SCALE_TENSOR", value="scale")
    note(made, "graph")
    return made


def weights() -> list[TensorProto]:
    """Return initializers of many types, some of them written in unusual but valid ways."""
    listed = [tensor("w"), tensor("scale", 1), *(tensor(dtype, 3 * LARGE, dtype) for dtype in ODD_TYPES)]
    spelled = tensor("spelled")
    spelled.data_location = TensorProto.DEFAULT
    typed = helper.make_tensor("typed", TensorProto.FLOAT, [LARGE], np.arange(LARGE))
    words = helper.make_tensor("words", TensorProto.STRING, [2], ["one", "two"])  # type: ignore[list-item]
    note(listed[0], "w")
    return [*listed, spelled, typed, words]


def model() -> ModelProto:
    """Return the model."""
    domains = {"": 18, "com.example": 77, "local": 1, "ai.onnx.ml": 3}
    imports = [helper.make_opsetid(domain, version) for domain, version in domains.items()]
    made = helper.make_model(
        graph(),
        opset_imports=imports,
        ir_version=11,
        functions=[function()],
        model_version=42,
        producer_name="maker",
        producer_version="1.2",
        domain="org.example",
    )
    info = made.training_info.add()
    info.initialization.CopyFrom(body("start"))
    info.algorithm.CopyFrom(body("step"))
    info.update_binding.add(key="w", value="step_y")
    made.configuration.add(name="two", num_devices=2)
    note(made, "model")
    return made
