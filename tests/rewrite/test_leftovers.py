"""What nothing reads, calls or uses goes; what may be read from outside, or does who knows what, stays."""

from __future__ import annotations

import onnx
from onnx import helper, numpy_helper

from onnxfuse.pipeline import optimize

from ..helpers import fused, model, noise, ops, weight_names


def test_dead_nodes_and_what_only_they_read() -> None:
    text = """g (float[2] x) => (float[2] y) <float[2] w = {1, 2}> {
        y = Abs (x)  a = Mul (x, w)  b, c = Split <axis = 0, num_outputs = 2> (a) }"""
    result = fused(model(text))
    assert ops(result.model) == {"Abs": 1}
    assert not weight_names(result.model)
    assert {fusion.rule for fusion in result.fusions} == {"dead-code"}


def test_a_node_with_one_output_that_is_read_stays() -> None:
    text = "g (float[2] x) => (float[1] y) { y, c = Split <axis = 0, num_outputs = 2> (x) }"
    assert ops(fused(model(text)).model) == {"Split": 1}


def test_dead_in_a_body_and_a_dead_node_with_bodies() -> None:
    text = """g (bool c, float[2] x) => (float[2] y) { n = Neg (x)
        y = If (c) <then_branch = t () => (float[2] a) { d = Exp (x)  a = Abs (x) },
                    else_branch = e () => (float[2] b) { b = Neg (x) }>
        z = If (c) <then_branch = t2 () => (float[2] a2) { a2 = Abs (n) },
                    else_branch = e2 () => (float[2] b2) { b2 = Neg (n) }> }"""
    assert ops(fused(model(text)).model) == {"If": 1, "Abs": 1, "Neg": 1}


def test_a_dead_reader_keeps_no_rule_from_firing() -> None:
    text = "g (float[1,4] x) => (float[1,5] y) { p = MatMul (x, w)  y = Add (p, b)  d = Neg (p) }"
    assert ops(fused(model(text, {"w": noise(4, 5), "b": noise(5)})).model) == {"Gemm": 1}


def test_an_operator_of_a_users_stays() -> None:
    made = model("g (float[2] x) => (float[2] y) { y = Abs (x)  n = Neg (x)  p = mine.Print (n) }", imports={"mine": 1})
    assert ops(optimize(made, validate=False).model) == {"Abs": 1, "Neg": 1, "Print": 1}


def test_a_weight_that_a_caller_may_override_and_one_that_is_an_output_stay() -> None:
    text = "g (float[2] x) => (float[2] y, float[2] v) <float[2] v = {1, 2}, float[2] u = {3, 4}> { y = Abs (x) }"
    made = model(text)
    made.graph.input.append(helper.make_tensor_value_info("u", onnx.TensorProto.FLOAT, [2]))
    assert weight_names(fused(made).model) == {"u", "v"}


def test_a_scale_that_only_an_annotation_speaks_of_stays() -> None:
    made = model("g (float[2] x) => (float[2] y) <float scale = {0.5}, float[2] w = {1, 2}> { y = Mul (x, w) }")
    note = made.graph.quantization_annotation.add(tensor_name="w")
    note.quant_parameter_tensor_names.add(key="SCALE_TENSOR", value="scale")
    assert weight_names(fused(made).model) == {"scale", "w"}


def test_a_weight_that_training_speaks_of_stays() -> None:
    made = model("g (float[2] x) => (float[2] y) <float rate = {0.5}> { y = Abs (x) }")
    info = made.training_info.add()
    info.algorithm.CopyFrom(helper.make_graph([helper.make_node("Neg", ["rate"], ["next"])], "step", [], []))
    assert weight_names(optimize(made, validate=False).model) == {"rate"}


def test_functions_that_nobody_calls() -> None:
    functions = """<domain: "local", opset_import: ["": 18]> F (x) => (y) { y = Neg (x) }
        <domain: "local", opset_import: ["": 18, "local": 1]> G (x) => (y) { y = local.F (x) }
        <domain: "local", opset_import: ["": 18]> H (x) => (y) { y = Exp (x) }"""
    text = "g (float[2] x) => (float[2] y) { y = local.H (x) }"
    made = model(text, imports={"local": 1}, functions=functions)
    kept = fused(made, ignore=["function-inlining"]).model
    assert [function.name for function in kept.functions] == ["H"]


def test_a_function_called_in_a_body_only_stays() -> None:
    functions = '<domain: "local", opset_import: ["": 18]> H (x) => (y) { y = Exp (x) }'
    text = """g (bool c, float[2] x) => (float[2] y) {
        y = If (c) <then_branch = t () => (float[2] a) { a = local.H (x) },
                    else_branch = e () => (float[2] b) { b = Neg (x) }> }"""
    made = model(text, imports={"local": 1}, functions=functions)
    assert [f.name for f in fused(made, ignore=["function-inlining"]).model.functions] == ["H"]


def test_imports_that_nobody_uses() -> None:
    made = model("g (float[2] x) => (float[2] y) { y = Abs (x) }", imports={"ai.onnx.ml": 3, "com.microsoft": 1})
    result = fused(made)
    assert [entry.domain for entry in result.model.opset_import] == [""]
    assert [fusion.rule for fusion in result.fusions] == ["unused-import"] * 2
    assert len(fused(made, ignore=["unused-import"]).model.opset_import) == 3


def test_an_import_that_only_a_body_uses_stays() -> None:
    text = """g (bool c, float[2] x) => (float[2] y) {
        y = If (c) <then_branch = t () => (float[2] a) { a = com.microsoft.QuickGelu (x) },
                    else_branch = e () => (float[2] b) { b = Neg (x) }> }"""
    assert len(fused(model(text, imports={"com.microsoft": 1})).model.opset_import) == 2


def test_ignored() -> None:
    made = model("g (float[2] x) => (float[2] y) { y = Abs (x)  n = Neg (x) }")
    made.graph.initializer.append(numpy_helper.from_array(noise(2), "w"))
    result = fused(made, ignore=["dead-code"])
    assert ops(result.model) == {"Abs": 1, "Neg": 1} and weight_names(result.model) == {"w"}
