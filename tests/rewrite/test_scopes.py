"""Fusions inside If, Loop and Scan bodies and local functions: the right weights, names and uses of the right scope."""

from __future__ import annotations

import numpy as np
import pytest

from onnxfuse.pipeline import optimize

from ..helpers import batchnorm, find, fused, graphs, misses, model, noise, ops, run, weight_names

WEIGHTS = {"w": noise(3, 2, 3, 3), **batchnorm(3)}
LOCAL = {"local": 1}
KEPT = ["function-inlining"]
FUNCTION = '<domain: "local", opset_import: ["": 18]>\n'
CONV_BN_FUNCTION = """F (x) => (y) {
    w = Constant <value = float[3,2,1,1] {1, 2, 3, 4, 5, 6}> ()
    p = Constant <value = float[3] {1, 2, 3}> ()
    t = Conv (x, w)
    y = BatchNormalization (t, p, p, p, p) }"""


def test_if_branches_with_weights_from_the_outer_scope() -> None:
    text = """g (bool c, float[1,2,5,5] x) => (float[1,3,3,3] y) {
        y = If (c) <
            then_branch = t () => (float[1,3,3,3] a) { u = Conv (x, w)  a = BatchNormalization (u, s, o, m, v) },
            else_branch = e () => (float[1,3,3,3] b) { k = Conv (x, w)  b = BatchNormalization (k, o, s, m, v) }> }"""
    result = fused(model(text, WEIGHTS)).model
    assert ops(result) == {"If": 1, "Conv": 2}
    assert not weight_names(result) & {"w", "s", "o", "m", "v"}


@pytest.mark.parametrize("tail", ["y = Conv (z, w)", "q = Conv (z, w)  y = BatchNormalization (q, s, o, m, v)"])
def test_fusions_in_a_body_and_around_it_in_one_go(tail: str) -> None:
    """The inner graph's new weights must be in the graph that is written, though the outer one was written anew."""
    text = """g (bool c, float[1,2,7,7] x) => (float[1,2,h,w] y) {
        z = If (c) <
            then_branch = t () => (float[1,2,5,5] a) { u = Conv (x, w)  a = BatchNormalization (u, s, o, m, v) },
            else_branch = e () => (float[1,2,5,5] b) { b = Conv (x, w) }>  %s }"""
    result = fused(model(text % tail, {"w": noise(2, 2, 3, 3), **batchnorm(2)})).model
    assert ops(result) == {"If": 1, "Conv": 3}


def test_loop_body() -> None:
    text = """g (int64 n, float[2,4] x) => (float[2,4] y) <bool true = {1}> {
        y = Loop (n, true, x) <body = l (int64 i, bool c, float[2,4] z) => (bool again, float[2,4] r) {
            again = Identity (c)  p = MatMul (z, w)  r = Add (p, b) }> }"""
    result = fused(model(text, {"w": noise(4, 4) / 4, "b": noise(4)})).model
    assert ops(result) == {"Loop": 1, "Identity": 1, "Gemm": 1}


def test_scan_body_whose_weights_are_its_own() -> None:
    text = """g (float[3,2,4] x) => (float[3,2,5] y) {
        y = Scan (x) <num_scan_inputs = 1, body = l (float[2,4] z) => (float[2,5] r)
            <float[4,5] w = {1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20}, float[5] b = {1,2,3,4,5}>
            { p = MatMul (z, w)  r = Add (p, b) }> }"""
    assert ops(fused(model(text)).model) == {"Scan": 1, "Gemm": 1}


@pytest.mark.parametrize("captured", ["t", "p"])
def test_an_interior_value_that_a_body_captures_blocks(captured: str) -> None:
    text = """g (bool c, float[2,4] x) => (float[2,5] y, float[2,5] z) {
        t = MatMul (x, w)  p = Add (t, b)  y = Neg (p)
        z = If (c) < then_branch = n () => (float[2,5] a) { a = Abs (%s) },
                     else_branch = e () => (float[2,5] k) { k = MatMul (x, w) }> }"""
    result = fused(model(text % captured, {"w": noise(4, 5), "b": noise(5)}))
    assert ("Gemm" in ops(result.model)) == (captured == "p")
    assert (misses(result, "matmul-add") == ["'t' is also read by 'Abs -> a'"]) == (captured == "t")


def test_an_interior_value_that_a_body_returns_as_it_is_blocks() -> None:
    text = """g (bool c, float[2,4] x) => (float[2,5] y, float[2,5] z) {
        t = MatMul (x, w)  y = Add (t, b)
        z = If (c) < then_branch = n () => (float[2,5] a) { a = Identity (t) },
                     else_branch = e () => (float[2,5] k) { k = MatMul (x, w) }> }"""
    assert "Gemm" not in ops(fused(model(text, {"w": noise(4, 5), "b": noise(5)})).model)


SHADOWED = """g (bool c, float[1,2,5,5] x) => (float[1,3,3,3] y) <float[3] w = {1, 2, 3}> {
    k = Neg (w)
    y = If (c) <then_branch = t () => (float[1,3,3,3] a) <float[3] w = {10, 20, 30}> {
        j = Abs (w)  i = Sub (j, k)  t = Conv (x, cw)  a = BatchNormalization (t, i, i, i, j) },
               else_branch = e () => (float[1,3,3,3] b) { b = Conv (x, cw) }> }"""


def test_one_name_two_values() -> None:
    """A branch's own `w` hides the outer one; a new weight depends on both (onnxruntime takes such models)."""
    assert ops(fused(model(SHADOWED, {"cw": noise(3, 2, 3, 3)})).model) == {"If": 1, "Conv": 2}


def test_a_body_input_that_hides_an_outer_value() -> None:
    """The Identity's reader stands in a body in which the name of the Identity's input means something else."""
    text = """g (int64 n, float[2,4] x) => (float[2,4] y) <bool true = {1}> {
        i = Identity (x)
        y = Loop (n, true, x) <body = l (int64 k, bool c, float[2,4] x) => (bool again, float[2,4] r) {
            again = Identity (c)  r = Sub (i, x) }> }"""
    assert ops(fused(model(text)).model) == {"Loop": 1, "Identity": 2, "Sub": 1}


def test_nested_twice() -> None:
    inner = """If (c) <then_branch = t2 () => (float[2,5] a2) { q = MatMul (x, w)  a2 = Add (b, q) },
                       else_branch = e2 () => (float[2,5] k2) { k2 = MatMul (x, w) }>"""
    text = f"""g (bool c, float[2,4] x) => (float[2,5] y) {{
        y = If (c) <then_branch = t () => (float[2,5] a) {{ d = {inner}  a = Neg (d) }},
                    else_branch = e () => (float[2,5] k) {{ p = MatMul (x, w)  k = Add (p, b) }}> }}"""
    result = fused(model(text, {"w": noise(4, 5), "b": noise(5)})).model
    assert ops(result) == {"If": 2, "Gemm": 2, "Neg": 1, "MatMul": 1}


def test_new_weights_of_a_function_are_constant_nodes() -> None:
    text = """g (float[1,2,5,5] x) => (float[1,3,5,5] y, float[1,3,5,5] z) {
        y = local.F (x)  n = Neg (x)  z = local.F (n) }"""
    result = fused(model(text, imports=LOCAL, functions=FUNCTION + CONV_BN_FUNCTION), ignore=KEPT).model
    assert ops(result) == {"F": 2, "Neg": 1, "Conv": 1, "Constant": 2}
    assert not weight_names(result)


def test_calls_that_disagree_about_shapes() -> None:
    """Rank 2 in one call and rank 3 in the other: a Gemm would be wrong for the second."""
    body = """F (x) => (y) {
        w = Constant <value = float[2,2] {1, 2, 3, 4}> ()  b = Constant <value = float[2] {1, 2}> ()
        t = MatMul (x, w)  y = Add (t, b) }"""
    one = "g (float[4,2] x, float[3,4,2] q) => (float[4,2] y, float[3,4,2] z) { y = local.F (x)  z = local.F (q) }"
    assert "Gemm" not in ops(fused(model(one, imports=LOCAL, functions=FUNCTION + body), ignore=KEPT).model)
    two = "g (float[4,2] x, float[9,2] q) => (float[4,2] y, float[9,2] z) { y = local.F (x)  z = local.F (q) }"
    assert "Gemm" in ops(fused(model(two, imports=LOCAL, functions=FUNCTION + body), ignore=KEPT).model)


def test_a_function_that_a_function_calls() -> None:
    outer = FUNCTION.replace('["": 18]', '["": 18, "local": 1]') + "G (x) => (y) { t = local.F (x)  y = Neg (t) }"
    text = "g (float[1,2,5,5] x) => (float[1,3,5,5] y) { y = local.G (x) }"
    made = model(text, imports=LOCAL, functions=FUNCTION + CONV_BN_FUNCTION + "\n" + outer)
    result = optimize(made, validate=False).model
    feeds = {"x": noise(1, 2, 5, 5)}
    np.testing.assert_allclose(run(result, feeds)["y"], run(made, feeds)["y"], rtol=1e-4, atol=1e-5)


def test_a_new_weight_cannot_depend_on_an_attribute_of_the_function() -> None:
    body = CONV_BN_FUNCTION.replace("F (x)", "F <e> (x)").replace(
        "BatchNormalization (", "BatchNormalization <epsilon: float = @e> ("
    )
    text = """g (float[1,2,5,5] x) => (float[1,3,5,5] y, float[1,3,5,5] z) {
        y = local.F <e = 0.3> (x)  z = local.F <e = 0.9> (x) }"""
    result = fused(model(text, imports=LOCAL, functions=FUNCTION + body), ignore=KEPT)
    assert "BatchNormalization" in ops(result.model)
    assert misses(result, "conv-batchnorm") == ["a new weight would depend on the function's attribute 'e'"]


def test_attribute_references_are_kept() -> None:
    body = CONV_BN_FUNCTION.replace("F (x)", "F <s> (x)").replace("Conv (", "Conv <strides: ints = @s> (")
    text = """g (float[1,2,5,5] x) => (float[1,3,3,3] y, float[1,3,5,5] z) {
        y = local.F <s = [2, 2]> (x)  z = local.F <s = [1, 1]> (x) }"""
    result = fused(model(text, imports=LOCAL, functions=FUNCTION + body), ignore=KEPT).model
    assert "BatchNormalization" not in ops(result)
    assert find(result, "Conv").attribute[0].ref_attr_name == "s"


def test_shapes_behind_an_attribute_reference_are_not_known() -> None:
    """onnx takes `axis = @a` for axis 0, and so would see a matrix of one row here, not of six."""
    body = """F <a> (x) => (y) {
        w = Constant <value = float[4,2] {1, 2, 3, 4, 5, 6, 7, 8}> ()
        b = Constant <value = float[6,1] {1, 2, 3, 4, 5, 6}> ()
        f = Flatten <axis: int = @a> (x)  t = MatMul (f, w)  y = Add (t, b) }"""
    text = "g (float[2,3,4] x) => (float[6,2] y) { y = local.F <a = 2> (x) }"
    assert "Gemm" not in ops(fused(model(text, imports=LOCAL, functions=FUNCTION + body), ignore=KEPT).model)


def test_names_of_functions_and_bodies_are_never_taken_again() -> None:
    """Every name that a fusion would like to give is already taken somewhere, in a scope it does not see."""
    text = """g (bool c, float[2,4] x, float[1,2,5,5] p) => (float[2,5] y, float[1,3,3,3] z)
        <float[1] "z/wNew" = {1.0}> {
        y = If (c) <then_branch = t () => (float[2,5] a) { "z/bNew" = MatMul (x, w)  a = Neg ("z/bNew") },
                    else_branch = e () => (float[2,5] k) { "y/Gemm" = MatMul (x, w)  k = Abs ("y/Gemm") }>
        t = Conv (p, cw)  z = BatchNormalization (t, s, o, m, v) }"""
    result = fused(model(text, {"w": noise(4, 5), "cw": noise(3, 2, 3, 3), **batchnorm(3)})).model
    names = [name for graph in graphs(result) for node in graph.node for name in node.output]
    names += sorted(weight_names(result))
    assert len(names) == len(set(names))
    assert "BatchNormalization" not in ops(result)
