"""Raising opsets: judged by onnxruntime, which must give what it gave for the original."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import AttributeProto, GraphProto, ModelProto, NodeProto, TensorProto, helper, numpy_helper

from onnxfuse.errors import OpsetError
from onnxfuse.model.file import from_proto
from onnxfuse.model.opset import raise_opset
from onnxfuse.model.opset.adapters import ADAPTERS, NEWEST, OLDEST

Array = np.ndarray
RANDOM = np.random.default_rng(0)
X = RANDOM.standard_normal((2, 3, 4, 5)).astype(np.float32)
FLAT = RANDOM.standard_normal((3, 6)).astype(np.float32)


def build(
    nodes: list[NodeProto],
    feeds: Mapping[str, Array],
    opset: int,
    outputs: tuple[str, ...] = ("y",),
    constants: Mapping[str, Array] | None = None,
    ranks: bool = True,
) -> ModelProto:
    """Return a model of ``nodes`` whose inputs have the types of ``feeds``, with dynamic dims, or without ranks."""
    inputs = []
    for name, value in feeds.items():
        dims = [f"{name}{axis}" for axis in range(value.ndim)] if ranks else None
        inputs.append(helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(value.dtype), dims))
    results = [onnx.ValueInfoProto(name=name) for name in outputs]
    weights = [numpy_helper.from_array(value, name) for name, value in (constants or {}).items()]
    graph = helper.make_graph(nodes, "g", inputs, results, weights)
    ir_version = max(helper.find_min_ir_version_for([helper.make_opsetid("", opset)]), 4)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=ir_version)
    typed = onnx.shape_inference.infer_shapes(model).graph.output
    for info, inferred in zip(model.graph.output, typed, strict=True):
        info.CopyFrom(inferred)
    return model


def run(proto: ModelProto, feeds: Mapping[str, Array]) -> list[Array]:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(proto.SerializeToString(), options, ["CPUExecutionProvider"])
    return list(session.run(None, dict(feeds)))


def raised(proto: ModelProto, opset: int) -> ModelProto:
    """Return the raised model, having checked what must hold for every one."""
    before = proto.SerializeToString(deterministic=True)
    result = raise_opset(from_proto(proto), opset).materialize()
    assert proto.SerializeToString(deterministic=True) == before
    onnx.shape_inference.infer_shapes(result, check_type=True, strict_mode=True)
    assert list(result.graph.input) == list(proto.graph.input) and list(result.graph.output) == list(proto.graph.output)
    assert list(result.graph.value_info) == list(proto.graph.value_info)
    old = len(proto.graph.initializer)
    assert list(result.graph.initializer)[:old] == list(proto.graph.initializer)
    return result


def check_same(proto: ModelProto, feeds: Mapping[str, Array], opset: int) -> ModelProto:
    result = raised(proto, opset)
    for one, other in zip(run(proto, feeds), run(result, feeds), strict=True):
        assert one.dtype == other.dtype and one.shape == other.shape
        np.testing.assert_allclose(one.astype(np.float64), other.astype(np.float64), rtol=1e-6, atol=1e-7)
    return result


# (operator, opset, attributes, inputs after x, outputs, x, opset to raise to)
Case = tuple[str, int, dict[str, Any], dict[str, Array], tuple[str, ...], Array, int]


def case(
    op: str,
    opset: int,
    x: Array = X,
    *,
    to: int = 23,
    out: tuple[str, ...] = ("y",),
    more: dict[str, Array] | None = None,
    **attributes: Any,
) -> Case:
    return op, opset, attributes, more or {}, out, x, to


REDUCTIONS = ("L1", "L2", "LogSum", "LogSumExp", "Max", "Mean", "Min", "Prod", "Sum", "SumSquare")
NORM = {name: (np.abs(RANDOM.standard_normal(3)) + 0.5).astype(np.float32) for name in ("s", "b", "m", "v")}
SCALES = {"scales": np.array([1, 1, 2, 3], np.float32)}
HALF = {"scales": np.array([1, 1, 0.5, 0.75], np.float32)}
GRID = {"grid": RANDOM.uniform(-1.2, 1.2, (2, 3, 3, 2)).astype(np.float32)}
CASES = [
    *(case(f"Reduce{kind}", opset, np.abs(X), axes=[1, -1], keepdims=keep)
      for kind in REDUCTIONS for opset, keep in ((11, 0), (13, 1)) if (kind, opset) != ("Sum", 13)),
    case("ReduceMean", 11), case("ReduceSum", 11, to=13, axes=[0]), case("ReduceMean", 11, to=17, axes=[0]),
    case("Squeeze", 11, X[:1, :, :1], axes=[0, 2]), case("Squeeze", 9, X[:1]), case("Unsqueeze", 11, axes=[0, -1]),
    *(case(op, opset, axis=axis) for op in ("Softmax", "LogSoftmax", "Hardmax") for axis in (0, 1, 2, 3)
      for opset in (9, 12)),
    *(case(op, 11, axis=axis) for op in ("Softmax", "LogSoftmax", "Hardmax") for axis in (-1, -2)),
    *(case(op, 12) for op in ("Softmax", "LogSoftmax", "Hardmax")), case("Softmax", 12, FLAT),
    case("Softmax", 12, X[:0]), case("Softmax", 12, X, to=13),
    case("Split", 11, FLAT, out=("y", "z"), axis=1), case("Split", 11, FLAT, out=("y", "z"), axis=1, split=[2, 4]),
    case("Split", 13, FLAT, out=("y", "z"), axis=1), case("Split", 11, FLAT, out=("y", "z"), to=17, axis=1),
    case("Split", 13, FLAT, out=("y", "z"), axis=1, more={"sizes": np.array([1, 5])}),
    case("Slice", 9, starts=[0, 1], ends=[9, -1]), case("Slice", 9, starts=[-2], ends=[9], axes=[2]),
    case("TopK", 9, out=("y", "i"), k=2, axis=1), case("TopK", 10, out=("y", "i"), more={"k": np.array([2])}),
    case("Clip", 10, min=-0.5), case("Clip", 10, max=0.5), case("Clip", 6 + 1, min=-0.5, max=0.5), case("Clip", 9),
    case("Clip", 11, more={"low": np.array(-0.5, np.float32)}),
    case("Clip", 10, X.astype(np.float16), min=0.0, max=6.0),
    case("Pad", 10, pads=[0, 1, 0, 2, 1, 0, 3, 0], value=1.5), case("Pad", 10, pads=[0] * 7 + [1]),
    case("Pad", 9, pads=[0, 0, 1, 1, 0, 0, 1, 1], mode="reflect"),
    case("Pad", 9, X.astype(np.float64), pads=[1] * 8, value=2.0),
    case("Dropout", 7, ratio=0.4), case("Dropout", 10), case("Dropout", 11, to=12, ratio=0.4),
    case("BatchNormalization", 7, more=NORM, epsilon=1e-3, momentum=0.5),
    case("BatchNormalization", 8, more=NORM, spatial=1),
    case("BatchNormalization", 9, more=NORM), case("BatchNormalization", 13, more=NORM, to=14),
    *(case(op, opset, to=to, mode=mode, more=more) for op, opset in (("Upsample", 9), ("Resize", 10))
      for to in (11, 13, 23) for mode, more in (("nearest", SCALES), ("linear", SCALES))),
    *(case("Resize", 10, to=to, mode="linear", more=HALF) for to in (11, 13, 23)),
    case("Upsample", 8, scales=[1.0, 1.0, 2.0, 3.0]), case("Upsample", 8, scales=[1.0, 1.0, 2.0, 1.5], mode="linear"),
    case("Upsample", 8, to=9, scales=[1.0, 1.0, 2.0, 3.0]),
    case("Resize", 11, more={"roi": np.zeros(0, np.float32), **HALF}),
    *(case("GridSample", 16, mode=mode, more=GRID) for mode in ("bilinear", "nearest", "bicubic")),
    case("GridSample", 16, more=GRID), case("GridSample", 16, to=19, more=GRID, mode="bicubic"),
    case("RoiAlign", 10, to=20, output_height=2, output_width=2, more={
        "rois": np.array([[0, 0, 3, 2]], np.float32), "batch": np.array([1])}),
    case("DFT", 17, X[..., :2]), case("DFT", 17, X[..., :1], axis=2, onesided=1),
    case("Scatter", 9, axis=1, more={"i": np.zeros((1, 1, 2, 2), np.int64), "u": np.ones((1, 1, 2, 2), np.float32)}),
    case("LSTM", 7, X[0], hidden_size=2, more={
        "w": np.linspace(-1, 1, 40, dtype=np.float32).reshape(1, 8, 5), "r": np.ones((1, 8, 2), np.float32)}),
    case("MaxPool", 8, kernel_shape=[2, 2], strides=[2, 2]), case("AveragePool", 10, kernel_shape=[2, 2], pads=[1] * 4),
    case("Gemm", 7, FLAT, more={"b": FLAT.T.copy(), "c": np.ones(3, np.float32)}), case("ArgMax", 7, axis=1),
    case("Flatten", 7, axis=2),
]  # fmt: skip


def describe(one: Case) -> str:
    op, opset, attributes, more, _, _, to = one
    return f"{op}-{opset}-{to}-{'-'.join(f'{k}={v}' for k, v in attributes.items())}-{'-'.join(more)}".replace(" ", "")


@pytest.mark.parametrize("ranks", [True, False], ids=["ranks", "no ranks"])
@pytest.mark.parametrize("one", CASES, ids=describe)
def test_operator_gives_the_same(one: Case, ranks: bool) -> None:
    op, opset, attributes, more, outputs, x, to = one
    node = helper.make_node(op, ["x", *more], list(outputs), "the node", doc_string="kept", **attributes)
    node.metadata_props.add(key="kept", value="yes")
    proto = build([node], {"x": x}, opset, outputs, more, ranks)
    result = check_same(proto, {"x": x}, to)
    kept = next(node for node in result.graph.node if node.name == "the node")
    assert kept.doc_string == "kept" and kept.metadata_props == node.metadata_props


def test_every_change_that_matters_has_an_adapter() -> None:
    """Removed attributes, changed defaults and removed operators, as onnx's own schemas list them."""
    history: dict[str, dict[int, onnx.defs.OpSchema]] = {}
    for schema in onnx.defs.get_all_schemas_with_history():
        if not schema.domain:
            history.setdefault(schema.name, {})[schema.since_version] = schema
    for op, versions in history.items():
        for old, new in pairwise(sorted(versions)):
            if OLDEST < new <= NEWEST and matters(versions[old], versions[new]):
                assert op in ADAPTERS, (op, old, new)


def matters(old: onnx.defs.OpSchema, new: onnx.defs.OpSchema) -> bool:
    if new.deprecated or old.attributes.keys() - new.attributes.keys():
        return True
    shared = ((old.attributes[name].default_value, new.attributes[name].default_value) for name in old.attributes)
    return any(one.name and one != other for one, other in shared)


def nested(axis: int) -> GraphProto:
    """Return a branch that takes Softmax, the mean and a part of the captured ``x``."""
    nodes = [
        helper.make_node("Softmax", ["x"], [f"soft{axis}"], axis=axis),
        helper.make_node("ReduceMean", [f"soft{axis}"], [f"mean{axis}"], axes=[-1], keepdims=1),
        helper.make_node("Clip", [f"mean{axis}"], [f"clip{axis}"], min=0.2),
    ]
    return helper.make_graph(nodes, f"branch{axis}", [], [onnx.ValueInfoProto(name=f"clip{axis}")])


@pytest.mark.parametrize("flag", [True, False])
def test_nested_graphs(flag: bool) -> None:
    feeds = {"x": X, "flag": np.array(flag)}
    branch = helper.make_node("If", ["flag"], ["y"], "if", then_branch=nested(1), else_branch=nested(3))
    result = check_same(build([branch], feeds, 10), feeds, 23)
    then_branch, else_branch = (attribute.g for attribute in result.graph.node[0].attribute)
    assert sorted(len(graph.node) for graph in (then_branch, else_branch)) == [3, 6]
    assert len(result.graph.node) == 1 and not result.graph.initializer


def test_loop_body_and_shared_constants() -> None:
    body = helper.make_graph([
        helper.make_node("Identity", ["go"], ["go_on"]),
        helper.make_node("ReduceSum", ["state"], ["sum"], axes=[1], keepdims=1),
        helper.make_node("ReduceMax", ["state"], ["max"], axes=[1], keepdims=1),
        helper.make_node("Sub", ["sum", "max"], ["next"]),
    ], "body", [helper.make_tensor_value_info("i", TensorProto.INT64, []),
                helper.make_tensor_value_info("go", TensorProto.BOOL, []),
                helper.make_tensor_value_info("state", TensorProto.FLOAT, None)],
        [helper.make_tensor_value_info("go_on", TensorProto.BOOL, []),
         helper.make_tensor_value_info("next", TensorProto.FLOAT, None)])  # fmt: skip
    loop = helper.make_node("Loop", ["n", "", "x"], ["y"], body=body)
    feeds = {"n": np.array(2), "x": FLAT}
    result = check_same(build([loop], feeds, 11), feeds, 20)
    raised_body = result.graph.node[0].attribute[0].g
    assert [list(tensor.dims) for tensor in raised_body.initializer] == [[1]]


def with_function(
    nodes: list[NodeProto], opset: int, own: int, attributes: tuple[str, ...] = (), **given: Any
) -> ModelProto:
    """Return a model at ``opset`` that calls a local function of ``nodes`` from a to b, which is at opset ``own``."""
    function = helper.make_function("local", "F", ["a"], ["b"], nodes, [helper.make_opsetid("", own)], attributes)
    proto = build([helper.make_node("Relu", ["x"], ["y0"])], {"x": X}, opset, ("y0",))
    call = helper.make_node("F", ["y0"], ["y"], domain="local", **given)
    proto.graph.node.append(call)
    proto.graph.output[0].CopyFrom(helper.make_tensor_value_info("y", TensorProto.FLOAT, None))
    proto.opset_import.append(helper.make_opsetid("local", 1))
    proto.functions.append(function)
    proto.ir_version = 8
    return proto


def test_functions() -> None:
    nodes = [helper.make_node("ReduceMean", ["a"], ["m"], axes=[1]), helper.make_node("Softmax", ["m"], ["b"], axis=2)]
    result = check_same(with_function(nodes, 12, 12), {"x": X}, 20)
    assert [entry.version for entry in result.functions[0].opset_import] == [20]


def test_function_at_a_newer_opset_stays() -> None:
    proto = with_function([helper.make_node("Neg", ["a"], ["b"])], 13, 18)
    assert raised(proto, 17).functions[0] == proto.functions[0]


def test_training_graphs() -> None:
    proto = build([helper.make_node("Relu", ["x"], ["y"])], {"x": X}, 11)
    for graph in (proto.training_info.add().algorithm, proto.training_info.add().initialization):
        graph.CopyFrom(nested(1))
        graph.node[2].Clear()
        graph.node[2].CopyFrom(helper.make_node("Neg", ["mean1"], ["clip1"]))
    result = raised(proto, 18)
    for info in (result.training_info[0].algorithm, result.training_info[1].initialization):
        assert [node.op_type for node in info.node] == ["Shape", "Flatten", "Softmax", "Reshape", "ReduceMean", "Neg"]


def test_names_that_are_taken() -> None:
    nodes = [
        helper.make_node("ReduceMean", ["x"], ["y"], axes=[0]), helper.make_node("Relu", ["x"], ["y/axes"]),
        helper.make_node("Softmax", ["x"], ["z"]), helper.make_node("Neg", ["x"], ["z/shape"], "z/flat"),
    ]  # fmt: skip
    check_same(build(nodes, {"x": X}, 11, ("y", "y/axes", "z", "z/shape")), {"x": X}, 18)


@pytest.mark.parametrize("node", [
    helper.make_node("Softmax", ["x"], ["y"]), helper.make_node("Split", ["x"], ["y"]),
    helper.make_node("Upsample", ["x"], ["y"], scales=[1.0, 1.0, 1.0, 1.0]),
    helper.make_node("Clip", ["x"], ["y"], min=0.0),
], ids=lambda node: node.op_type)  # fmt: skip
def test_dynamic_dims_stay_dynamic(node: NodeProto) -> None:
    proto = build([node], {"x": X}, 8)
    result = raised(proto, 23)
    for size in (1, 3):
        feeds = {"x": RANDOM.standard_normal((size, size + 1, 2, size)).astype(np.float32)}
        assert run(result, feeds)[0].shape == feeds["x"].shape
        assert np.array_equal(run(result, feeds)[0], run(proto, feeds)[0])


def test_ir_version_is_only_ever_raised() -> None:
    proto = build([helper.make_node("Relu", ["x"], ["y"])], {"x": X}, 11)
    proto.ir_version = 6
    assert raised(proto, 17).ir_version == 8
    proto.ir_version = 9
    assert raised(proto, 17).ir_version == 9


def test_model_that_is_there_already() -> None:
    model = from_proto(build([helper.make_node("Relu", ["x"], ["y"])], {"x": X}, 17))
    assert raise_opset(model, 17) is model


def test_unchanged_nodes_are_the_same_messages() -> None:
    nodes = [
        helper.make_node("Add", ["x", "x"], ["a"], "n", "doc"), helper.make_node("LeakyRelu", ["a"], ["b"], alpha=0.3),
        helper.make_node("Custom", ["b"], ["c"], domain="com.example"), helper.make_node("Relu", ["c"], ["y"]),
    ]  # fmt: skip
    proto = helper.make_model(helper.make_graph(nodes, "g", [], []), ir_version=8, opset_imports=[
        helper.make_opsetid("", 9), helper.make_opsetid("com.example", 5)])  # fmt: skip
    result = raise_opset(from_proto(proto), 23).proto
    assert list(result.graph.node) == nodes
    assert [(entry.domain, entry.version) for entry in result.opset_import] == [("", 23), ("com.example", 5)]


MASK = ("y", "mask")
TRAINED = ("y", "new_mean", "new_var")
REFUSED: list[tuple[Case, str]] = [
    (case("Custom", 11), "is no operator of the default domain"),
    (case("BatchNormalization", 7, more=NORM, spatial=0), "spatial=0"),
    (case("BatchNormalization", 13, more=NORM, out=TRAINED), "training mode"),
    (case("Dropout", 9, out=MASK), "mask"), (case("Dropout", 11, out=MASK), "mask"),
    (case("GroupNormalization", 18, X, num_groups=3, more={"s": NORM["s"], "b": NORM["b"]}), "for each channel"),
    (case("Scan", 8, num_scan_inputs=1, body=GraphProto(name="body")), "batch axis"),
    (case("Upsample", 9, more=HALF), "scales"), (case("Resize", 10, more=HALF), "scales"),
    (case("Upsample", 10, more=SCALES), "no meaning"), (case("Add", 13, to=12), "cannot be lowered"),
    (case("Add", 13, to=NEWEST + 1), "newest"), (case("Relu", 6), "oldest"),
]  # fmt: skip


@pytest.mark.parametrize(("one", "reason"), REFUSED)
def test_refused_with_the_reason(one: Case, reason: str) -> None:
    op, opset, attributes, more, outputs, _, to = one
    node = helper.make_node(op, ["x", *more], list(outputs), "the node", **attributes)
    weights = [numpy_helper.from_array(value, name) for name, value in more.items()]
    graph = helper.make_graph([node], "g", [], [], weights)
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
    with pytest.raises(OpsetError, match=reason) as caught:
        raise_opset(from_proto(proto), to)
    if OLDEST <= opset <= to <= NEWEST:
        assert f"{op} node 'the node'" in str(caught.value)


def test_refused_for_scales_that_are_computed() -> None:
    node = helper.make_node("Upsample", ["x", "scales"], ["y"], "up")
    with pytest.raises(OpsetError, match="'up' picks the nearest"):
        raise_opset(from_proto(build([node], {"x": X, **SCALES}, 9)), 17)


def test_refused_in_a_function() -> None:
    mean = helper.make_node("ReduceMean", ["a"], ["b"], "mean")
    mean.attribute.add(name="axes", ref_attr_name="axes", type=AttributeProto.INTS)
    clip = helper.make_node("Clip", ["a"], ["b"], "clip", min=0.0)
    for node, reason, opset in ((mean, "'mean' takes 'axes' from", 13), (clip, "'clip' has 'min' as an attribute", 10)):
        with pytest.raises(OpsetError, match=reason):
            raise_opset(from_proto(with_function([node], opset, opset, ("axes",), axes=[1])), 20)


def test_refused_without_a_default_opset() -> None:
    graph = helper.make_graph([helper.make_node("Custom", ["x"], ["y"], domain="com.example")], "g", [], [])
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("com.example", 1)], ir_version=8)
    with pytest.raises(OpsetError, match="no opset to raise"):
        raise_opset(from_proto(proto), 17)
