"""What must survive: everything a model can hold beside what is fused, with a fusion in the same model."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest
from onnx import AttributeProto, GraphProto, ModelProto, NodeProto, TensorProto, helper

import onnxfuse

from .helpers import batchnorm, fused, metadata, model, noise, ops, run
from .model import rich

FUSED = (
    """image (float[1,2,5,5] p) => (float[1,3,3,3] q) { t = Conv (p, cw)  q = BatchNormalization (t, s, o, m, v) }"""
)
OUTPUT = helper.make_tensor_value_info("q", TensorProto.FLOAT, [1, 3, 3, 3])


def with_fusion(proto: ModelProto) -> ModelProto:
    """Add a Conv and a BatchNormalization to a model, beside all that it holds."""
    part = model(FUSED, {"cw": noise(3, 2, 3, 3), **batchnorm(3)})
    proto.graph.input.extend(part.graph.input)
    proto.graph.output.extend(part.graph.output)
    proto.graph.initializer.extend(part.graph.initializer)
    for position, node in enumerate(part.graph.node):
        proto.graph.node.insert(position, node)
    return proto


def without_fusion(proto: ModelProto) -> ModelProto:
    """Take the fused Conv and its weights out again."""
    fused_conv = next(node for node in proto.graph.node if node.op_type == "Conv")
    assert metadata(fused_conv)["onnxfuse.rule"] == "conv-batchnorm"
    weights = [tensor for tensor in proto.graph.initializer if tensor.name in fused_conv.input]
    assert len(weights) == 2
    for tensor in weights:
        proto.graph.initializer.remove(tensor)
    proto.graph.node.remove(fused_conv)
    proto.graph.input.pop()
    proto.graph.output.pop()
    return proto


@pytest.mark.parametrize("kind", ["memory", "inline", "external"])
def test_one_of_everything(tmp_path: Path, kind: str) -> None:
    """All that ONNX can say, byte by byte, but for the fused part."""
    proto = with_fusion(rich.model())
    path = tmp_path / "m.onnx"
    if kind == "external":
        onnx.save(with_fusion(rich.model()), path, save_as_external_data=True, location="m.bin", size_threshold=1024)
    else:
        path.write_bytes(proto.SerializeToString())
    result = onnxfuse.optimize(proto if kind == "memory" else path, validate=False, select=["conv-batchnorm"])
    assert [fusion.rule for fusion in result.fusions] == ["conv-batchnorm"]
    result.save(tmp_path / "out.onnx")
    before = rich.model()
    if kind == "external":
        before = onnx.load(path)
        for name in ("cw", *"somv"):
            before.graph.initializer.remove(next(t for t in before.graph.initializer if t.name == name))
        del before.graph.node[:2]
        before.graph.input.pop()
        before.graph.output.pop()
    assert without_fusion(onnx.load(tmp_path / "out.onnx")) == before


def test_types_and_graphs_in_attributes_beside_a_fusion() -> None:
    """A sequence, an optional and their types run as before (the model of `rich` cannot be run)."""
    proto = model(
        """g (float[2,4] x, bool c) => (float[2,5] y, bool has, float[2,4] z) {
            t = MatMul (x, w)  y = Add (t, b)
            seq = SequenceConstruct (x, x)
            some = Optional (x)
            has = OptionalHasElement (some)
            first = Constant <value = int64 {1}> ()
            z = SequenceAt (seq, first) }""",
        {"w": noise(4, 5), "b": noise(5)},
    )
    assert ops(fused(proto).model)["Gemm"] == 1


def test_an_empty_optional_keeps_its_type() -> None:
    proto = model("g (float[2,4] x) => (float[2,5] y, bool has) { t = MatMul (x, w)  y = Add (t, b) }",
                  {"w": noise(4, 5), "b": noise(5)})  # fmt: skip
    node = helper.make_node("Optional", [], ["none"])
    node.attribute.append(helper.make_attribute("type", helper.make_tensor_type_proto(TensorProto.FLOAT, [1])))
    proto.graph.node.extend([node, helper.make_node("OptionalHasElement", ["none"], ["has"])])
    result = fused(proto).model
    assert ops(result) == {"Gemm": 1, "Optional": 1, "OptionalHasElement": 1}
    assert result.graph.node[1] == node


def test_sequence_inputs_beside_a_fusion() -> None:
    sequence = helper.make_sequence_type_proto(helper.make_tensor_type_proto(TensorProto.FLOAT, None))
    proto = model("g (float[2,4] x) => (float[2,5] y, int64 n) { t = MatMul (x, w)  y = Add (t, b) }",
                  {"w": noise(4, 5), "b": noise(5)})  # fmt: skip
    proto.graph.input.append(helper.make_value_info("s", sequence))
    proto.graph.node.append(helper.make_node("SequenceLength", ["s"], ["n"]))
    result = onnxfuse.optimize(proto, validate=False).model
    assert ops(result) == {"Gemm": 1, "SequenceLength": 1}
    assert result.graph.input[1] == proto.graph.input[1]


def test_sparse_initializers_that_are_read() -> None:
    text = """g (float[2,4] x) => (float[2,5] y, float[2,5] z) {
        t = MatMul (x, w)  y = Add (t, b)  z = MatMul (x, k) }"""
    proto = model(text, {"w": noise(4, 5), "b": noise(5)})
    values = helper.make_tensor("k", TensorProto.FLOAT, [2], [1.5, -2.0])
    indices = helper.make_tensor("k_indices", TensorProto.INT64, [2], [3, 17])
    proto.graph.sparse_initializer.append(helper.make_sparse_tensor(values, indices, [4, 5]))
    result = onnxfuse.optimize(proto, validate=False).model
    assert ops(result) == {"Gemm": 1, "MatMul": 1}
    assert result.graph.sparse_initializer == proto.graph.sparse_initializer
    feeds = {"x": noise(2, 4)}
    assert (run(result, feeds)["z"] == run(proto, feeds)["z"]).all()


def test_a_quantization_annotation_keeps_what_it_names() -> None:
    proto = model("g (float[2,4] x) => (float[2,5] y) { t = MatMul (x, w)  n = Neg (t)  y = Add (n, b) }",
                  {"w": noise(4, 5), "b": noise(5), "scale": noise(1)})  # fmt: skip
    for name in ("w", "n"):
        note = proto.graph.quantization_annotation.add(tensor_name=name)
        note.quant_parameter_tensor_names.add(key="SCALE_TENSOR", value="scale")
    proto.graph.node.insert(2, helper.make_node("Identity", ["n"], ["i"]))
    proto.graph.node[3].input[0] = "i"
    result = fused(proto).model
    assert result.graph.quantization_annotation == proto.graph.quantization_annotation
    assert {tensor.name for tensor in result.graph.initializer} == {"w", "b", "scale"}
    assert "n" in {name for node in result.graph.node for name in node.output}


def test_an_annotated_weight_that_is_folded_away_stays_with_its_annotation() -> None:
    proto = with_fusion(model("g (float[2] x) => (float[2] y) { y = Neg (x) }"))
    proto.graph.quantization_annotation.add(tensor_name="cw")
    result = fused(proto).model
    assert "cw" in {tensor.name for tensor in result.graph.initializer}


def test_training_keeps_what_it_reads() -> None:
    """The training graph reads and updates weights of the main graph by name."""
    proto = with_fusion(model("g (float[2] x) => (float[2] y) { y = Neg (x) }"))
    info = proto.training_info.add()
    step = helper.make_node("Neg", ["s"], ["s_new"])
    info.algorithm.CopyFrom(helper.make_graph([step], "step", [], [helper.make_tensor_value_info("s_new", 1, [3])]))
    info.update_binding.add(key="cw", value="s_new")
    result = onnxfuse.optimize(proto, validate=False).model
    assert ops(result) == {"Conv": 1, "Neg": 1}
    assert {"s", "cw"} <= {tensor.name for tensor in result.graph.initializer}
    assert result.training_info == proto.training_info


@pytest.mark.parametrize("name", ["FLOAT8E4M3FN", "FLOAT8E4M3FNUZ", "FLOAT8E5M2", "FLOAT8E5M2FNUZ", "INT4", "UINT4",
                                  "BFLOAT16", "FLOAT4E2M1", "COMPLEX128", "STRING"])  # fmt: skip
def test_tensors_of_rare_types_beside_a_fusion(name: str) -> None:
    proto = with_fusion(model("g (float[2] x) => (float[2] y) { y = Neg (x) }"))
    if name == "STRING":
        odd = TensorProto(name="odd", data_type=TensorProto.STRING, dims=[2], string_data=[b"a", b"b"])
    else:
        odd = rich.tensor("odd", 700, name)
    proto.graph.initializer.append(odd)
    proto.graph.node.append(helper.make_node("Hold", ["odd"], ["held"], domain="com.acme"))
    proto.opset_import.append(helper.make_opsetid("com.acme", 1))
    result = onnxfuse.optimize(proto, validate=False).model
    assert odd in list(result.graph.initializer)


def test_a_custom_operator_that_reads_what_is_fused() -> None:
    proto = with_fusion(model("g (float[2] x) => (float[2] y) { y = Neg (x) }"))
    custom = NodeProto(op_type="Odd", domain="com.acme", name="odd", input=["q", "", "nowhere"], output=["z", "", "u"])
    custom.attribute.append(AttributeProto(name="empty", type=AttributeProto.INTS))
    proto.graph.node.append(custom)
    proto.graph.initializer.append(helper.make_tensor("nowhere", 1, [1], [0.0]))
    proto.opset_import.append(helper.make_opsetid("com.acme", 7))
    result = onnxfuse.optimize(proto, validate=False).model
    assert result.graph.node[-1] == custom
    assert result.opset_import == proto.opset_import


def test_names_docs_and_order_of_what_is_around() -> None:
    proto = with_fusion(model("g (float[2] x) => (float[2] y) { [neg] y = Neg (x) }"))
    for message in (proto, proto.graph, proto.graph.node[2], proto.graph.input[0], proto.graph.output[0]):
        rich.note(message, "kept")
    proto.model_version, proto.domain, proto.producer_name = 42, "org.example", "maker"
    result = fused(proto).model
    for graph in (proto.graph, result.graph):
        _clear_fused(graph)
    assert result == proto


def _clear_fused(graph: GraphProto) -> None:
    kept = [node for node in graph.node if node.op_type not in ("Conv", "BatchNormalization")]
    del graph.node[:], graph.initializer[:]
    graph.node.extend(kept)
