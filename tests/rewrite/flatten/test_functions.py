"""Calls of local functions: the body in their place computes the same, under names that nobody else has."""

from __future__ import annotations

import pytest

from onnxfuse.model.file import from_proto
from onnxfuse.pipeline import optimize
from onnxfuse.rewrite.flatten import flatten

from ...helpers import find, fused, graphs, metadata, model, noise, ops, run

LOCAL = {"local": 1}
HEAD = '<domain: "local", opset_import: ["": 18]> '
CALL = "g (float[2] x) => (float[2] y) { y = local.F (x) }"
TWICE = "g (float[2] x) => (float[2] y, float[2] z) { y = local.F (x)  n = Exp (x)  z = local.F (n) }"


def test_one_call_and_many() -> None:
    body = HEAD + "F (x) => (y) { t = Abs (x)  y = Neg (t) }"
    assert ops(fused(model(CALL, imports=LOCAL, functions=body)).model) == {"Abs": 1, "Neg": 1}
    result = fused(model(TWICE, imports=LOCAL, functions=body))
    assert ops(result.model) == {"Abs": 2, "Neg": 2, "Exp": 1}
    assert not result.model.functions
    assert [entry.domain for entry in result.model.opset_import] == [""]
    names = [name for node in result.model.graph.node for name in node.output]
    assert len(names) == len(set(names))


def test_weights_that_only_the_caller_knows() -> None:
    """The bias is a function's argument: only inlined is it known to be a weight."""
    body = HEAD + "F (x, w, b) => (y) { t = MatMul (x, w)  y = Add (t, b) }"
    text = "g (float[1,4] x) => (float[1,5] y) { y = local.F (x, w, b) }"
    made = model(text, {"w": noise(4, 5), "b": noise(5)}, imports=LOCAL, functions=body)
    assert ops(fused(made).model) == {"Gemm": 1}


def test_a_function_in_a_function() -> None:
    inner = HEAD + "F (x) => (y) { t = Abs (x)  y = Neg (t) }"
    outer = HEAD.replace("18]", '18, "local": 1]')
    outer += "G (x) => (y) { t = local.F (x)  u = local.F (t)  y = Exp (u) }"
    text = "g (float[2] x) => (float[2] y) { y = local.G (x) }"
    assert ops(fused(model(text, imports=LOCAL, functions=inner + outer)).model) == {"Abs": 2, "Neg": 2, "Exp": 1}


def test_attributes_given_defaulted_and_left_out() -> None:
    body = (
        HEAD
        + """F <s, alpha: float = 0.25> (x) => (y) {
        l = LeakyRelu <alpha: float = @alpha> (x)  y = Softmax <axis: int = @s> (l) }"""
    )
    text = """g (float[2,3] x) => (float[2,3] y, float[2,3] z, float[2,3] u) {
        y = local.F <s = 0, alpha = 0.5> (x)  z = local.F <s = 1> (x)  u = local.F (x) }"""
    result = fused(model(text, imports=LOCAL, functions=body)).model
    assert ops(result) == {"LeakyRelu": 2, "Softmax": 3}
    assert not any(attribute.ref_attr_name for node in result.graph.node for attribute in node.attribute)


def test_attributes_in_graphs_inside_the_body() -> None:
    body = (
        HEAD
        + """F <alpha> (x, c) => (y) {
        y = If (c) <then_branch = t () => (float[2] a) { a = LeakyRelu <alpha: float = @alpha> (x) },
                    else_branch = e () => (float[2] b) { b = Neg (x) }> }"""
    )
    text = """g (float[2] x, bool c) => (float[2] y, float[2] z) {
        y = local.F <alpha = 0.5> (x, c)  z = local.F <alpha = 0.1> (x, c) }"""
    result = fused(model(text, imports=LOCAL, functions=body)).model
    assert ops(result) == {"If": 2, "LeakyRelu": 2, "Neg": 2}
    names = [name for graph in graphs(result) for node in graph.node for name in node.output]
    assert len(names) == len(set(names))


def test_an_absent_optional_argument() -> None:
    body = HEAD + "F (x, low, high) => (y) { y = Clip (x, low, high) }"
    text = "g (float[2] x) => (float[2] y) <float high = {0.5}> { y = local.F (x, , high) }"
    made = model(text.replace(", ,", ", high,"), imports=LOCAL, functions=body)
    made.graph.node[0].input[1] = ""
    result = fused(made).model
    assert ops(result) in ({"Clip": 1}, {"Min": 1})


def test_an_argument_that_is_given_back_and_a_value_given_twice() -> None:
    """onnxruntime takes no such function, so that only the result is run."""
    body = HEAD + "F (x) => (x, y, y) { y = Abs (x) }"
    text = "g (float[2] x) => (float[2] u, float[2] v, float[2] w) { n = Neg (x)  u, v, w = local.F (n) }"
    result = optimize(model(text, imports=LOCAL, functions=body), validate=False).model
    assert ops(result) == {"Neg": 1, "Abs": 1, "Identity": 1}
    x = noise(2)
    u, v, w = run(result, {"x": x}).values()
    assert (u == -x).all() and (v == abs(x)).all() and (w == abs(x)).all()


def test_calls_inside_graphs() -> None:
    body = HEAD + "F (x) => (y) { t = Abs (x)  y = Exp (t) }"
    text = """g (bool c, float[2] x) => (float[2] y) { t = Sin (x)
        y = If (c) <then_branch = t () => (float[2] a) { a = local.F (t) },
                    else_branch = e () => (float[2] b) { b = Neg (t) }> }"""
    assert ops(fused(model(text, imports=LOCAL, functions=body)).model) == {
        "If": 1,
        "Sin": 1,
        "Abs": 1,
        "Exp": 1,
        "Neg": 1,
    }


def test_what_means_something_else_at_the_models_opset_stays() -> None:
    """Softmax of opset 11 flattens first; that of 18 does not."""
    body = '<domain: "local", opset_import: ["": 11]> F (x) => (y) { y = Softmax <axis = 0> (x) }'
    text = "g (float[2,3] x) => (float[2,3] y) { y = local.F (x) }"
    assert ops(fused(model(text, imports=LOCAL, functions=body)).model) == {"F": 1, "Softmax": 1}


def test_an_older_opset_at_which_all_is_the_same() -> None:
    body = '<domain: "local", opset_import: ["": 17]> F (x) => (y) { t = Abs (x)  y = Neg (t) }'
    assert ops(fused(model(CALL, imports=LOCAL, functions=body)).model) == {"Abs": 1, "Neg": 1}


@pytest.mark.parametrize("name", ["QuickGelu", "OwnGelu"])
def test_a_function_that_a_runtime_may_have_a_kernel_for_stays(name: str) -> None:
    body = f'<domain: "com.microsoft", opset_import: ["": 18]> {name} (x) => (y) {{ t = Abs (x)  y = Neg (t) }}'
    text = f"g (float[2] x) => (float[2] y) {{ y = com.microsoft.{name} (x) }}"
    made = model(text, imports={"com.microsoft": 1}, functions=body)
    assert ops(fused(made).model) == {name: 1, "Abs": 1, "Neg": 1}


def test_a_function_that_a_rule_matches_stays() -> None:
    file = from_proto(model(CALL, imports=LOCAL, functions=HEAD + "F (x) => (y) { t = Abs (x)  y = Neg (t) }"))
    assert flatten(file, {"function-inlining"}, {("local", "F")}) == (file, [])
    assert flatten(file, {"function-inlining"}, {("", "F"), ("local", "G")})[1]


def test_large_constants_are_not_multiplied() -> None:
    numbers = ", ".join(map(str, range(300)))
    body = HEAD + f"F (x) => (y) {{ w = Constant <value = float[300] {{{numbers}}}> ()  y = Add (x, w) }}"
    one = "g (float[300] x) => (float[300] y) { y = local.F (x) }"
    two = "g (float[300] x) => (float[300] y) { t = local.F (x)  u = Neg (t)  y = local.F (u) }"
    assert "F" not in ops(fused(model(one, imports=LOCAL, functions=body)).model)
    assert ops(fused(model(two, imports=LOCAL, functions=body)).model)["F"] == 2


def test_metadata_of_the_call_and_the_body() -> None:
    body = HEAD + "F (x) => (y) { t = Abs (x)  y = Exp (t) }"
    made = model(CALL, imports=LOCAL, functions=body)
    made.graph.node[0].metadata_props.add(key="layer", value="7")
    made.functions[0].node[1].metadata_props.add(key="layer", value="inner")
    result = fused(made).model
    assert metadata(find(result, "Abs"))["layer"] == "7"
    assert metadata(find(result, "Exp"))["layer"] == "inner"


def test_operators_of_a_domain_that_the_model_does_not_import() -> None:
    body = HEAD.replace("18]", '18, "com.microsoft": 1]')
    body += "F (x) => (y) { t = Abs (x)  y = com.microsoft.QuickGelu (t) }"
    result = fused(model(CALL, imports=LOCAL, functions=body)).model
    assert ops(result) == {"Abs": 1, "QuickGelu": 1}
    assert {entry.domain for entry in result.opset_import} == {"", "com.microsoft"}


def test_ignored() -> None:
    body = HEAD + "F (x) => (y) { t = Abs (x)  y = Neg (t) }"
    assert "F" in ops(fused(model(CALL, imports=LOCAL, functions=body), ignore=["function-inlining"]).model)
