"""Clean-up: what passes a value on, and equal values computed twice; nothing that is not provably a no-op."""

from __future__ import annotations

import pytest

from onnxfuse.pipeline import optimize

from ..helpers import fused, model, noise, ops, run


def kept(text: str, opset: int = 18) -> dict[str, int]:
    return ops(fused(model(text, opset=opset)).model)


def test_identity_in_the_middle() -> None:
    assert kept("g (float[2] x) => (float[2] y) { a = Neg (x)  i = Identity (a)  y = Abs (i) }") == {"Neg": 1, "Abs": 1}


def test_identity_before_an_output() -> None:
    text = "g (float[2] x) => (float[2] y) { a = Neg (x)  y = Identity (a) }"
    result = fused(model(text)).model
    assert ops(result) == {"Neg": 1}
    assert list(result.graph.node[0].output) == ["y"]


def test_identity_before_an_output_of_a_value_that_others_read() -> None:
    text = "g (float[2] x) => (float[2] y, float[2] z) { a = Neg (x)  y = Identity (a)  z = Abs (a) }"
    assert kept(text) == {"Neg": 1, "Abs": 1}


def test_identity_from_graph_input_to_graph_output_stays() -> None:
    assert kept("g (float[2] x) => (float[2] y) { y = Identity (x) }") == {"Identity": 1}


def test_identity_of_a_weight_to_a_graph_output_stays() -> None:
    assert kept("g (float[1] x) => (float[1] y, float[1] z) <float[1] w = {2}> { y = Identity (w)  z = Neg (x) }") == {
        "Identity": 1,
        "Neg": 1,
    }


def test_two_outputs_of_one_value_keep_both_names() -> None:
    text = "g (float[2] x) => (float[2] y, float[2] z) { a = Neg (x)  y = Identity (a)  z = Identity (a) }"
    assert kept(text) == {"Neg": 1, "Identity": 1}


def test_an_output_that_is_read_on() -> None:
    text = "g (float[2] x) => (float[2] y, float[2] z) { y = Neg (x)  i = Identity (y)  z = Abs (i) }"
    assert kept(text) == {"Neg": 1, "Abs": 1}


def test_identity_that_a_body_reads() -> None:
    text = """g (bool c, float[2] x) => (float[2] y) { n = Neg (x)  i = Identity (n)
        y = If (c) <then_branch = t () => (float[2] a) { a = Abs (i) },
                    else_branch = e () => (float[2] b) { b = Identity (i) }> }"""
    assert kept(text) == {"Neg": 1, "If": 1, "Abs": 1, "Identity": 1}


def test_identity_that_a_body_returns_as_it_is() -> None:
    """onnxruntime takes no such branch, so that only the names are looked at."""
    text = """g (bool c, float[2] x) => (float[2] y) { n = Neg (x)  i = Identity (n)
        y = If (c) <then_branch = t () => (float[2] a) { a = Abs (i) },
                    else_branch = e () => (float[2] b) { j = Identity (i)  b = Neg (j) }> }"""
    assert kept(text) == {"Neg": 2, "If": 1, "Abs": 1}


@pytest.mark.parametrize("name, number, gone", [("float", 1, True), ("float16", 10, False), ("double", 11, False)])
def test_only_a_cast_to_the_same_type_goes(name: str, number: int, gone: bool) -> None:
    text = f"g (float[2] x) => ({name}[2] y) {{ a = Neg (x)  b = Cast <to = {number}> (a)  y = Abs (b) }}"
    assert ("Cast" not in kept(text)) == gone


def test_a_cast_there_and_back_rounds_and_stays() -> None:
    text = "g (float[2] x) => (float[2] y) { a = Neg (x)  b = Cast <to = 10> (a)  c = Cast <to = 1> (b)  y = Abs (c) }"
    assert kept(text)["Cast"] == 2


def test_same_type_cast_before_an_output() -> None:
    text = "g (float[2] x) => (float[2] y) { a = Neg (x)  y = Cast <to = 1> (a) }"
    assert kept(text) == {"Neg": 1}


def test_a_cast_of_unknown_type_stays() -> None:
    text = "g (float[2] x) => (float[2] y) { a = com.microsoft.Gelu (x)  y = Cast <to = 1> (a) }"
    assert ops(fused(model(text, imports={"com.microsoft": 1})).model).get("Cast") == 1


def test_identity_of_a_sequence() -> None:
    text = """g (float[2] x, float[2] z) => (float[4] y) {
        s = SequenceConstruct (x, z)  i = Identity (s)  y = ConcatFromSequence <axis = 0> (i) }"""
    assert "Identity" not in kept(text)


def test_equal_nodes_are_merged() -> None:
    text = """g (float[2] x) => (float[2] y) {
        a = Neg (x)  b = Neg (x)  c = Elu <alpha = 0.5> (a)  d = Elu <alpha = 0.5> (b)  y = Add (c, d) }"""
    assert kept(text) == {"Neg": 1, "Elu": 1, "Add": 1}


@pytest.mark.parametrize(
    "first, second",
    [
        ("Elu <alpha = 0.5> (x)", "Elu <alpha = 0.25> (x)"),
        ("Elu <alpha = 0.5> (x)", "Elu (x)"),
        ("Sub (x, k)", "Sub (k, x)"),
        ("Transpose <perm = [1, 0]> (x)", "Softplus (x)"),
        ("LpNormalization <p = 1> (x)", "LpNormalization <p = 2> (x)"),
        ("Add (x, k)", "Add (x, l)"),
        ("Softmax <axis = 0> (x)", "Softmax <axis = 1> (x)"),
        ("Mul (x, k)", "Mul (x, wide)"),
    ],
)
def test_unequal_nodes_are_not(first: str, second: str) -> None:
    text = f"""g (float[2,2] x) => (float[2,2] y, float[2,2] z)
        <float[2] k = {{1, 2}}, float[2] l = {{1, 3}}, float[1,2] wide = {{1, 2}}>
        {{ a = {first}  y = Neg (a)  b = {second}  z = Abs (b) }}"""
    assert sum(kept(text).values()) == 4


def test_equal_constants_count_as_one_operand() -> None:
    text = """g (float[2] x) => (float[2] y) <float[2] k = {1, 2}, float[2] l = {1, 2}>
        { a = Mul (x, k)  b = Mul (x, l)  y = Sub (a, b) }"""
    assert kept(text) == {"Mul": 1, "Sub": 1}


def test_numbers_of_equal_bits_but_other_types_are_not_equal() -> None:
    text = """g (int64[2] x) => (int64[2] y, int64[2] z) <int64[1] k = {0}, int32[1] l = {0}>
        { a = Gather (x, k)  y = Expand (a, two)  b = Gather (x, l)  z = Expand (b, two)  }"""
    assert kept(text.replace("int32[1] l = {0}>", "int32[1] l = {0}, int64[1] two = {2}>"))["Gather"] == 2


def test_strings_are_compared_as_strings() -> None:
    text = """g (string[2] x) => (string[2] y, string[2] z) {
        a = Constant <value_strings = ["a", "b"]> ()  y = StringConcat (x, a)
        b = Constant <value_string = "a"> ()  c = Constant <value_string = "b"> ()
        t = StringConcat (x, b)  z = StringConcat (t, c) }"""
    made = model(text, opset=20)
    result = optimize(made, validate=False).model
    assert ops(result) == ops(made)


@pytest.mark.parametrize(
    "op", ["RandomNormalLike <seed = 1.0>", "RandomUniformLike", "Bernoulli", "Dropout <seed = 3>"]
)
def test_random_nodes_are_never_merged(op: str) -> None:
    argument = "(x, r, t)" if op.startswith("Dropout") else "(x)"
    text = f"""g (float[2] x) => (float[2] y) <float r = {{0.5}}, bool t = {{1}}>
        {{ a = {op} {argument}  b = {op} {argument}  y = Sub (a, b) }}"""
    made = model(text)
    assert sum(ops(optimize(made, validate=False).model).values()) == 3


def test_nodes_of_other_domains_are_never_merged() -> None:
    text = """g (float[2] x) => (float[2] y) {
        a = com.microsoft.Gelu (x)  b = com.microsoft.Gelu (x)  y = Sub (a, b) }"""
    assert ops(fused(model(text, imports={"com.microsoft": 1})).model)["Gelu"] == 2


def test_two_graph_outputs_are_never_merged() -> None:
    assert kept("g (float[2] x) => (float[2] y, float[2] z) { y = Neg (x)  z = Neg (x) }") == {"Neg": 2}


def test_a_graph_output_and_an_inner_value_are_one() -> None:
    assert kept("g (float[2] x) => (float[2] y, float[2] z) { y = Neg (x)  a = Neg (x)  z = Abs (a) }")["Neg"] == 1


def test_nodes_of_two_branches_are_not_merged() -> None:
    text = """g (bool c, float[2] x) => (float[2] y) { n = Neg (x)
        y = If (c) <then_branch = t () => (float[2] a) { p = Exp (x)  a = Abs (p) },
                    else_branch = e () => (float[2] b) { q = Exp (x)  b = Add (q, n) }> }"""
    assert kept(text)["Exp"] == 2


def test_merging_makes_room_for_a_rule() -> None:
    """Each GELU half reads its own copy of the error function: only merged do they make one."""
    text = """g (float[2,4] x) => (float[2,4] y) {
        m1 = ReduceMean (x, ax)  m2 = ReduceMean (x, ax)  d1 = Sub (x, m1)  d2 = Sub (x, m2)
        p = Mul (d2, d2)  v = ReduceMean (p, ax)  ve = Add (v, eps)  r = Sqrt (ve)  y = Div (d1, r) }"""
    head = "<int64[1] ax = {-1}, float eps = {0.01}> {"
    assert kept(text.replace("{", head, 1)) == {"LayerNormalization": 1}


def test_a_multi_output_node() -> None:
    text = """g (float[4] x) => (float[2] y, float[2] z) {
        a, b = Split <num_outputs = 2> (x)  c, d = Split <num_outputs = 2> (x)  y = Add (a, d)  z = Sub (b, c) }"""
    assert kept(text) == {"Split": 1, "Add": 1, "Sub": 1}


def test_dropout_in_inference() -> None:
    text = "g (float[2] x) => (float[2] y) { n = Neg (x)  d = Dropout (n)  y = Abs (d) }"
    assert kept(text) == {"Neg": 1, "Abs": 1}
    assert kept(text.replace("d = Dropout", "d, mask = Dropout"), opset=10) == {"Neg": 1, "Abs": 1}


def test_run_of_helpers_switches_optimizations_off() -> None:
    """The judge of all these tests: it must not drop the Identity itself."""
    made = model("g (float[2] x) => (float[2] y) { y = Identity (x) }")
    assert run(made, {"x": noise(2)})["y"].shape == (2,)
