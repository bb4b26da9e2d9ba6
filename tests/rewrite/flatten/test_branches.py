"""Ifs whose condition is known: the branch comes out with what it holds, under names that nobody else has."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import helper

from onnxfuse.pipeline import optimize

from ...helpers import fused, graphs, model, noise, ops, run, weight_names


def branches(then: str, other: str = "b = Neg (x)", condition: str = "c", outputs: str = "y") -> str:
    return f"""{outputs} = If ({condition}) <then_branch = t () => (float[2] a) {{ {then} }},
        else_branch = e () => (float[2] b) {{ {other} }}>"""


@pytest.mark.parametrize("value, op", [(1, "Abs"), (0, "Neg")])
def test_the_branch_that_is_taken(value: int, op: str) -> None:
    text = f"g (float[2] x) => (float[2] y) <bool c = {{{value}}}> {{ {branches('a = Abs (x)')} }}"
    result = fused(model(text))
    assert ops(result.model) == {op: 1}
    assert not weight_names(result.model)
    assert [fusion.rule for fusion in result.fusions] == ["constant-if", "dead-code"]


def test_a_condition_that_is_fed_stays() -> None:
    text = f"g (bool c, float[2] x) => (float[2] y) {{ {branches('a = Abs (x)')} }}"
    assert ops(fused(model(text)).model) == {"If": 1, "Abs": 1, "Neg": 1}


def test_a_condition_that_a_caller_may_override_stays() -> None:
    made = model(f"g (float[2] x) => (float[2] y) <bool c = {{1}}> {{ {branches('a = Abs (x)')} }}")
    made.graph.input.append(helper.make_tensor_value_info("c", onnx.TensorProto.BOOL, []))
    assert "If" in ops(fused(made).model)


def test_a_condition_known_from_a_shape() -> None:
    text = """g (float[n,3] x) => (float[m,k] y) <int64 one = {1}, int64 three = {3}> {
        s = Shape (x)  d = Gather (s, one)  c = Equal (d, three)
        y = If (c) <then_branch = t () => (float[p,q] a) { a = Transpose <perm = [1, 0]> (x) },
                    else_branch = e () => (float[p,q] b) { b = Identity (x) }> }"""
    assert ops(fused(model(text)).model) == {"Transpose": 1}


def test_a_condition_known_from_a_rank_that_another_if_settled() -> None:
    """Size(Shape(...)) of what the first If gives is known only when that is gone."""
    text = """g (float[1,n] x) => (float[k] y) <int64 zero = {0}, int64 one = {1}, int64[1] axes = {0}> {
        s = Shape (x)  d = Gather (s, zero)  c = Equal (d, one)
        z = If (c) <then_branch = t () => (float[p] a) { a = Squeeze (x, axes) },
                    else_branch = e () => (float[p,q] b) { b = Identity (x) }>
        r = Shape (z)  i = Size (r)  d2 = Equal (i, one)  u = Not (d2)
        y = If (u) <then_branch = t2 () => (float[p2] a2) { a2 = Squeeze (z, axes) },
                    else_branch = e2 () => (float[p3] b2) { b2 = Neg (z) }> }"""
    assert ops(fused(model(text)).model) == {"Squeeze": 1, "Neg": 1}


def test_a_branch_with_weights_and_captures() -> None:
    text = """g (float[2] x) => (float[2] y) <bool c = {1}, float[2] w = {5, 6}> { n = Neg (x)
        y = If (c) <then_branch = t () => (float[2] a) <float[2] v = {7, 8}> { p = Mul (n, v)  a = Add (p, w) },
                    else_branch = e () => (float[2] b) { b = Neg (x) }> }"""
    result = fused(model(text)).model
    assert ops(result) == {"Neg": 1, "Mul": 1, "Add": 1}
    assert weight_names(result) == {"v", "w"}


def test_names_that_the_other_scopes_have_too() -> None:
    """Two branches that both come out have the same inner names, and one of them those of the outer graph's weight."""
    text = """g (float[2] x, bool f) => (float[2] y, float[2] z, float[2] u) <bool c = {1}> {
        y = If (c) <then_branch = t () => (float[2] a) <float[2] w = {1, 2}> { h = Mul (x, w)  a = Abs (h) },
                    else_branch = e () => (float[2] b) { b = Neg (x) }>
        z = If (c) <then_branch = t2 () => (float[2] a) <float[2] w = {3, 4}> { h = Mul (x, w)  a = Exp (h) },
                    else_branch = e2 () => (float[2] b) { b = Neg (x) }>
        u = If (f) <then_branch = t3 () => (float[2] a) <float[2] w = {5, 6}> { h = Mul (x, w)  a = Abs (h) },
                    else_branch = e3 () => (float[2] b) { b = Neg (y) }> }"""
    result = fused(model(text)).model
    assert ops(result) == {"Mul": 3, "Abs": 2, "Exp": 1, "If": 1, "Neg": 1}
    names = [name for graph in graphs(result) for node in graph.node for name in node.output]
    names += [tensor.name for graph in graphs(result) for tensor in graph.initializer]
    assert len(names) == len(set(names))


def test_a_branch_that_gives_an_outer_value() -> None:
    """onnxruntime takes no such branch, so that only the result is looked at."""
    text = f"g (float[2] x) => (float[2] y) <bool c = {{1}}> {{ n = Neg (x)  {branches('d = Abs (n)')} }}"
    made = model(text)
    made.graph.node[1].attribute[0].g.output[0].name = "n"
    result = optimize(made, validate=False).model
    assert ops(result) == {"Neg": 1}
    assert list(result.graph.node[0].output) == ["y"]


def test_a_branch_that_gives_one_value_twice_and_a_weight() -> None:
    """onnxruntime gives garbage for such a branch, so that only the result is run."""
    text = """g (float[2] x) => (float[2] y, float[2] z, float[2] w) <bool c = {1}> {
        y, z, w = If (c) <
            then_branch = t () => (float[2] a, float[2] a, float[2] v) <float[2] v = {1, 2}> { a = Abs (x) },
            else_branch = e () => (float[2] b, float[2] b, float[2] b) { b = Neg (x) }> }"""
    result = optimize(model(text), validate=False).model
    assert ops(result) == {"Abs": 1, "Identity": 2}
    x = noise(2)
    y, z, w = run(result, {"x": x}).values()
    assert (y == abs(x)).all() and (z == abs(x)).all() and w.tolist() == [1, 2]


def test_an_output_that_nobody_asks_for() -> None:
    """onnxruntime does not run such an If, so that only the result is run."""
    text = """g (float[2] x) => (float[2] z) <bool c = {1}> {
        u, z = If (c) <then_branch = t () => (float[2] a, float[2] d) { a = Abs (x)  d = Exp (a) },
                       else_branch = e () => (float[2] b, float[2] f) { b = Neg (x)  f = Neg (b) }> }"""
    made = model(text)
    made.graph.node[0].output[0] = ""
    result = optimize(made, validate=False).model
    assert ops(result) == {"Abs": 1, "Exp": 1}
    x = noise(2)
    np.testing.assert_allclose(run(result, {"x": x})["z"], np.exp(abs(x)), rtol=1e-6)


def test_ifs_in_each_other() -> None:
    inner = """If (c) <then_branch = t2 () => (float[2] a2) { j = Abs (x)  a2 = Exp (j) },
        else_branch = e2 () => (float[2] b2) { b2 = Neg (x) }>"""
    branch = branches(f"k = Neg (x)  i = {inner}  a = Add (i, k)")
    text = f"g (float[2] x) => (float[2] y) <bool c = {{1}}> {{ {branch} }}"
    assert ops(fused(model(text)).model) == {"Neg": 1, "Abs": 1, "Exp": 1, "Add": 1}


def test_an_if_in_a_branch_that_goes_is_not_reported() -> None:
    inner = branches("a = Abs (x)", outputs="b").replace("b = Neg", "q = Neg").replace("(float[2] b)", "(float[2] q)")
    text = f"g (float[2] x) => (float[2] y) <bool c = {{1}}> {{ {branches('a = Exp (x)', inner)} }}"
    result = fused(model(text))
    assert [fusion.rule for fusion in result.fusions] == ["constant-if", "dead-code"]


def test_in_a_loop_body_and_with_what_that_is_fed() -> None:
    text = """g (int64 n, float[2] x) => (float[2] y) <bool true = {1}> {
        y = Loop (n, true, x) <body = l (int64 i, bool go, float[2] s) => (bool again, float[2] r) {
            again = Identity (go)
            r = If (true) <then_branch = t () => (float[2] a) { h = Abs (s)  a = Exp (h) },
                           else_branch = e () => (float[2] b) { b = Neg (s) }> }> }"""
    assert ops(fused(model(text)).model) == {"Loop": 1, "Identity": 1, "Abs": 1, "Exp": 1}


def test_in_a_function_body_where_weights_become_constants() -> None:
    functions = """<domain: "local", opset_import: ["": 18]> F (x) => (y) { c = Constant <value = bool {1}> ()
        y = If (c) <then_branch = t () => (float[2] a) <float[2] v = {7, 8}> { a = Mul (x, v) },
                    else_branch = e () => (float[2] b) { b = Neg (x) }> }"""
    text = "g (float[2] x) => (float[2] y) { y = local.F (x) }"
    made = model(text, imports={"local": 1}, functions=functions)
    assert ops(fused(made, ignore=["function-inlining"]).model) == {"F": 1, "Constant": 1, "Mul": 1}


def test_a_random_branch_stays_random() -> None:
    text = """g (float[2] x) => (float[2] y) <bool c = {1}> {
        y = If (c) <then_branch = t () => (float[2] a) { r = RandomNormalLike (x)  k = Sub (r, r)  a = Add (k, x) },
                    else_branch = e () => (float[2] b) { b = Neg (x) }> }"""
    assert ops(fused(model(text)).model)["RandomNormalLike"] == 1


def test_ignored() -> None:
    text = f"g (float[2] x) => (float[2] y) <bool c = {{1}}> {{ {branches('a = Abs (x)')} }}"
    assert "If" in ops(fused(model(text), ignore=["constant-if"]).model)


def test_rules_fire_across_what_was_a_border() -> None:
    text = """g (float[1,4] x) => (float[1,5] y) <bool c = {1}> { p = MatMul (x, w)
        y = If (c) <then_branch = t () => (float[1,5] a) { a = Add (p, b) },
                    else_branch = e () => (float[1,5] k) { k = Neg (p) }> }"""
    assert ops(fused(model(text, {"w": noise(4, 5), "b": noise(5)})).model) == {"Gemm": 1}
