"""What a match text says of the graph's structure: operands, attributes, constants, uses.  One law broken a case."""

from __future__ import annotations

import re

import numpy as np
import onnx
import pytest

from ..helpers import model
from .rules import EVERY, tried

ADD = "(x) => (y) { one = Constant <value_float: float = 1.0> ()  t = Abs (x)  y = Add (t, one) }"
SUB = ADD.replace("Add (t", "Sub (t")


def graph(
    body: str, constants: str = "float one = {1.0}", dims: str = "2,3", result: str = "2,3", opset: int = 18
) -> onnx.ModelProto:
    return model(f"g (float[{dims}] x) => (float[{result}] y) <{constants}> {{ {body} }}", opset=opset)


def applied(proto: onnx.ModelProto, match: str = ADD, inputs: str = 'x = "T"', head: str = EVERY) -> bool:
    return tried(proto, match, inputs, head=head)[0] == 1


# Operands


@pytest.mark.parametrize("body", ["t = Abs (x)  y = Add (t, one)", "t = Abs (x)  y = Add (one, t)"])
def test_operands_of_a_commutative_operator_in_either_order(body: str) -> None:
    assert applied(graph(body))


def test_operands_of_other_operators_only_as_written() -> None:
    assert applied(graph("t = Abs (x)  y = Sub (t, one)"), SUB)
    assert not applied(graph("t = Abs (x)  y = Sub (one, t)"), SUB)


def test_orders_are_tried_together_where_one_alone_leads_nowhere() -> None:
    """Both operands of the outer Add are Adds: only one order fits what is below."""
    match = """(x, a, b) => (y) {
        p = Add (x, a)  n = Neg (x)  q = Add (n, b)  y = Add (p, q) }"""
    text = """g (float[2] x, float[2] a, float[2] b) => (float[2] y) {
        p = Add (a, x)  n = Neg (x)  q = Add (b, n)  y = Add (q, p) }"""
    assert applied(model(text), match, 'x = "T"\na = "T"\nb = "T"')


def test_one_name_is_one_value() -> None:
    match = "(x) => (y) { t = Abs (x)  y = Mul (x, t) }"
    inputs = "g (float[2] x, float[2] z) => (float[2] y)"
    assert applied(model(inputs + "{ t = Abs (x)  y = Mul (t, x) }"), match)
    assert not applied(model(inputs + "{ t = Abs (x)  y = Mul (t, z) }"), match)


def test_two_names_may_be_one_value() -> None:
    match = "(a, b) => (y) { t = Abs (a)  y = Mul (b, t) }"
    text = "g (float[2] x) => (float[2] y) { t = Abs (x)  y = Mul (t, x) }"
    assert applied(model(text), match, 'a = "T"\nb = "T"')


def test_two_lines_are_two_nodes() -> None:
    match = "(x) => (y) { p = Abs (x)  q = Abs (x)  y = Mul (p, q) }"
    text = "g (float[2] x) => (float[2] y) { t = Abs (x)  y = Mul (t, t) }"
    assert not applied(model(text), match)


def test_another_operator_is_no_match() -> None:
    assert not applied(graph("t = Neg (x)  y = Add (t, one)"))


def test_an_operator_of_another_domain_is_no_match() -> None:
    match = "(x) => (y) { y = Gelu (x) }"
    head = EVERY.replace("opset = 18", "opset = 20")
    text = "g (float[2] x) => (float[2] y) { y = com.microsoft.Gelu (x) }"
    assert not applied(model(text, opset=20, imports={"com.microsoft": 1}), match, head=head)
    assert applied(model(text.replace("com.microsoft.", ""), opset=20), match, head=head)


def test_ai_onnx_is_the_default_domain() -> None:
    proto = graph("t = Abs (x)  y = Add (t, one)")
    proto.graph.node[0].domain = "ai.onnx"
    proto.opset_import[0].domain = "ai.onnx"
    assert applied(proto)


# Uses of interior values


@pytest.mark.parametrize(
    "outputs, body, reason",
    [
        ("float[2] y, float[2] t", "t = Abs (x)  y = Add (t, one)", "'t' is a graph output"),
        ("float[2] y, float[2] z", "t = Abs (x)  y = Add (t, one)  z = Neg (t)", "'t' is also read by 'Neg -> z'"),
        (
            "float[2] y, float[2] z",
            """t = Abs (x)  y = Add (t, one)
               z = If (c) <then_branch = p () => (float[2] a) { a = Neg (t) },
                           else_branch = q () => (float[2] b) { b = Neg (x) }>""",
            "'t' is also read by 'Neg -> a'",
        ),
    ],
)
def test_an_interior_value_that_somebody_else_needs(outputs: str, body: str, reason: str) -> None:
    text = f"g (float[2] x, bool c) => ({outputs}) <float one = {{1.0}}> {{ {body} }}"
    assert tried(model(text), ADD) == (0, [reason])


def test_an_interior_value_that_a_branch_returns() -> None:
    """The branch has no node that reads it: it is the branch's output itself."""
    text = """g (float[2] x, bool c) => (float[2] y, float[2] z) <float one = {1.0}> {
        t = Abs (x)  y = Add (t, one)
        z = If (c) <then_branch = p () => (float[2] t) { },
                    else_branch = q () => (float[2] b) { b = Neg (x) }> }"""
    assert tried(model(text), ADD) == (0, ["'t' is a graph output"])


def test_a_second_output_that_somebody_needs() -> None:
    match = "(x) => (y) { t = MaxPool <kernel_shape: ints = [1]> (x)  y = Abs (t) }"
    body = "{ t, i = MaxPool <kernel_shape = [1]> (x)  y = Abs (t) %s }"
    unused = model("g (float[1,1,4] x) => (float[1,1,4] y)" + body % "")
    used = model("g (float[1,1,4] x) => (float[1,1,4] y, int64[1,1,4] i)" + body % "")
    assert applied(unused, match)
    assert tried(used, match) == (0, ["'i' is a graph output"])


def test_another_output_than_the_text_means() -> None:
    match = "(x) => (y) { a, b = Split <num_outputs: int = 2> (x)  y = Abs (b) }"
    text = "g (float[4] x) => (float[2] y) { a, b = Split <num_outputs = 2> (x)  y = Abs (%s) }"
    rewrite = "(x) => (y) { a, b = Split <num_outputs: int = 2> (x)  y = Softsign (b) }"
    assert tried(model(text % "b"), match, rewrite=rewrite)[0] == 1
    assert tried(model(text % "a"), match, rewrite=rewrite)[0] == 0


def test_an_annotated_value_stays() -> None:
    proto = graph("t = Abs (x)  y = Add (t, one)")
    proto.graph.quantization_annotation.add(tensor_name="t")
    assert not applied(proto)


# Optional inputs


CLIP = "(x, low) => (y) { t = Clip (x, low)  y = Abs (t) }"


def test_an_input_the_text_does_not_mention_must_be_absent() -> None:
    inputs = 'x = "T"\nlow = "T"'
    constants = "float low = {0.5}, float high = {2.0}"
    assert applied(graph("t = Clip (x, low)  y = Abs (t)", constants), CLIP, inputs)
    assert not applied(graph("t = Clip (x, low, high)  y = Abs (t)", constants), CLIP, inputs)
    assert not applied(graph('t = Clip (x, "", high)  y = Abs (t)', constants), CLIP, inputs)


def test_absent_in_its_three_spellings() -> None:
    optional = 'x = "T"\nlow = "T?"'
    for body in ("t = Clip (x)", 't = Clip (x, "")', 't = Clip (x, "", "")'):
        assert applied(graph(body + "  y = Abs (t)"), CLIP, optional), body
        assert not applied(graph(body + "  y = Abs (t)"), CLIP, 'x = "T"\nlow = "T"'), body


# Attributes


def elu(attributes: str, opset: int = 18) -> onnx.ModelProto:
    return graph(f"y = Elu {attributes} (x)", opset=opset)


def test_silence_means_the_default() -> None:
    match = "(x) => (y) { y = Elu (x) }"
    assert applied(elu(""), match)
    assert applied(elu("<alpha = 1.0>"), match)
    assert not applied(elu("<alpha = 0.5>"), match)


def test_an_attribute_as_written() -> None:
    match = "(x) => (y) { y = Elu <alpha: float = 0.5> (x) }"
    assert applied(elu("<alpha = 0.5>"), match)
    assert not applied(elu(""), match)
    assert not applied(elu("<alpha = 0.500001>"), match)


def test_the_default_written_out_is_the_default() -> None:
    assert applied(elu(""), "(x) => (y) { y = Elu <alpha: float = 1.0> (x) }")


def test_an_attribute_that_has_no_default_must_be_absent() -> None:
    match = "(x) => (y) { y = Transpose (x) }"
    rewrite = "(x) => (y) { y = Transpose <perm: ints = [1, 0]> (x) }"
    for attributes, expected in (("", 1), ("<perm = [1, 0]>", 0)):
        proto = graph(f"y = Transpose {attributes} (x)", result="3,2")
        assert tried(proto, match, rewrite=rewrite, head="opset = 18\nalso = [1, 13]")[0] == expected


@pytest.mark.parametrize("axis, expected", [("", 1), ("<axis = 1>", 1), ("<axis = -1>", 1), ("<axis = 0>", 0)])
def test_the_default_of_the_opset_the_text_is_written_at(axis: str, expected: int) -> None:
    rewrite = "(x) => (y) { y = Softplus (x) }"
    proto = graph(f"y = Softmax {axis} (x)", opset=13)
    assert tried(proto, "(x) => (y) { y = Softmax (x) }", head="opset = 13\n", rewrite=rewrite)[0] == expected


def test_an_attribute_bound_twice_must_be_equal() -> None:
    match = "(x) => (y) { t = Elu <alpha: float = @a> (x)  y = Elu <alpha: float = @a> (t) }"
    inputs = 'x = "T"\n[attributes]\na = { type = "float" }'
    assert applied(graph("t = Elu <alpha = 0.5> (x)  y = Elu <alpha = 0.5> (t)"), match, inputs)
    assert applied(graph("t = Elu <alpha = 1.0> (x)  y = Elu (t)"), match, inputs)
    assert not applied(graph("t = Elu <alpha = 0.5> (x)  y = Elu (t)"), match, inputs)


# One view of arguments that once were attributes


MEAN = "(x) => (y) { axes = Constant <value_ints: ints = [-1]> ()  t = ReduceMean (x, axes)  y = Sub (x, t) }"


@pytest.mark.parametrize("axes", ["-1", "1"])
@pytest.mark.parametrize("opset", [13, 18])
def test_axes_as_attribute_or_input_counted_from_either_end(axes: str, opset: int) -> None:
    if opset < 18:
        proto = graph(f"t = ReduceMean <axes = [{axes}]> (x)  y = Sub (x, t)", opset=opset)
    else:
        proto = graph("t = ReduceMean (x, a)  y = Sub (x, t)", f"int64[1] a = {{{axes}}}", opset=opset)
    assert applied(proto, MEAN)


@pytest.mark.parametrize("attributes", ["axes = [0]", "axes = [-2]", "axes = [0, 1]", "axes = [1], keepdims = 0"])
def test_other_axes_are_no_match(attributes: str) -> None:
    body = f"t = ReduceMean <{attributes}> (x)  y = Sub (x, t)"
    assert not applied(graph(body, dims="3,3", result="3,3", opset=13), MEAN)
    assert not applied(graph("t = ReduceMean (x)  y = Sub (x, t)", opset=13), MEAN)


def test_positive_axes_of_an_unknown_rank_are_no_match() -> None:
    proto = graph("t = ReduceMean <axes = [1]> (x)  y = Sub (x, t)", opset=13)
    for value in (proto.graph.input[0], proto.graph.output[0]):
        value.type.tensor_type.ClearField("shape")
    assert not applied(proto, MEAN)
    proto.graph.node[0].attribute[0].ints[0] = -1
    assert applied(proto, MEAN)


def test_the_text_may_use_the_attribute() -> None:
    match = "(x) => (y) { t = ReduceMean <axes: ints = [-1]> (x)  y = Sub (x, t) }"
    head = EVERY.replace("opset = 18", "opset = 13").replace("also = [1,", "also = [18, 1,")
    assert applied(graph("t = ReduceMean (x, a)  y = Sub (x, t)", "int64[1] a = {1}", opset=18), match, head=head)
    assert applied(graph("t = ReduceMean <axes = [1]> (x)  y = Sub (x, t)", opset=13), match, head=head)


def test_clip_limits_as_attributes_of_old_and_inputs_of_new() -> None:
    match = """(x) => (y) { low = Constant <value_float: float = 0.0> ()  high = Constant <value_float: float = 6.0> ()
        t = Clip (x, low, high)  y = Abs (t) }"""
    assert applied(graph("t = Clip <min = 0.0, max = 6.0> (x)  y = Abs (t)", opset=6), match)
    assert not applied(graph("t = Clip <min = 0.0, max = 5.0> (x)  y = Abs (t)", opset=6), match)
    constants = "float low = {0.0}, float high = {6.0}"
    assert applied(graph("t = Clip (x, low, high)  y = Abs (t)", constants), match)
    assert not applied(graph("t = Clip (x, high, low)  y = Abs (t)", constants), match)


# Constants


CONSTANTS = [
    "one = Constant <value_float = 1.0> ()",
    "one = Constant <value = float {1.0}> ()",
    "one = Constant <value = float[1] {1.0}> ()",
    "one = Constant <value_floats = [1.0]> ()",
    "half = Constant <value_float = 0.5> ()  one = Add (half, half)",
    "shape = Constant <value_ints = [1]> ()  one = ConstantOfShape <value = float[1] {1.0}> (shape)",
    "minus = Constant <value_float = -1.0> ()  n = Neg (minus)  one = Identity (n)",
]


@pytest.mark.parametrize("given", CONSTANTS)
def test_a_number_in_every_spelling(given: str) -> None:
    assert applied(graph(f"{given}  t = Abs (x)  y = Add (t, one)", "float unused = {0}"))


def test_an_initializer_and_an_input_with_a_default() -> None:
    proto = graph("t = Abs (x)  y = Add (t, one)")
    assert applied(proto)
    proto.graph.input.append(onnx.helper.make_tensor_value_info("one", 1, []))
    assert not applied(proto)
    proto.ir_version = 3
    proto.opset_import[0].version = 8
    assert applied(proto)


def test_a_weight_that_is_fed_is_no_constant() -> None:
    text = "g (float[2] x, float one) => (float[2] y) { t = Abs (x)  y = Add (t, one) }"
    assert not applied(model(text))


@pytest.mark.parametrize("value, expected", [(1.0, True), (1 + 2**-23, True), (1 + 2**-20, False), (0.0, False)])
def test_a_number_must_be_the_number(value: float, expected: bool) -> None:
    proto = graph("t = Abs (x)  y = Add (t, c)", "float unused = {0}")
    proto.graph.initializer.append(onnx.numpy_helper.from_array(np.asarray(value, np.float32), "c"))
    assert applied(proto) == expected


def test_a_small_number_is_not_zero() -> None:
    match = ADD.replace("1.0", "0.0")
    assert applied(graph("t = Abs (x)  y = Add (t, one)", "float one = {0.0}"), match)
    assert not applied(graph("t = Abs (x)  y = Add (t, one)", "float one = {0.000000000000000000000000000001}"), match)


def test_a_wider_tolerance_only_where_the_rule_says_so() -> None:
    proto = graph("t = Abs (x)  y = Add (t, one)", "float one = {1.00005}")
    assert not applied(proto)
    assert applied(proto, ADD, 'x = "T"\n[constants]\none = { rtol = 1e-4 }')


@pytest.mark.parametrize("dims, expected", [("", 1), ("[1]", 1), ("[1,1]", 1), ("[1,1,1]", 0)])
def test_a_number_with_more_dims_than_its_partner(dims: str, expected: int) -> None:
    result = "1,2,3" if dims == "[1,1,1]" else "2,3"
    assert applied(graph("t = Abs (x)  y = Add (t, one)", f"float{dims} one = {{1.0}}", result=result)) == bool(
        expected
    )


def test_a_number_with_dims_beside_a_value_of_unknown_rank() -> None:
    for dims, expected in (("", True), ("[1]", False)):
        proto = graph("t = Abs (x)  y = Add (t, one)", f"float{dims} one = {{1.0}}")
        for value in (proto.graph.input[0], proto.graph.output[0]):
            value.type.tensor_type.ClearField("shape")
        assert applied(proto) == expected


def test_one_value_repeated_is_no_number() -> None:
    assert not applied(graph("t = Abs (x)  y = Add (t, one)", "float[3] one = {1.0, 1.0, 1.0}"))


def test_text_is_no_number() -> None:
    match = "(x) => (y) { one = Constant <value_float: float = 1.0> ()  y = Equal (x, one) }"
    text = 'g (string[2] x) => (bool[2] y) { k = Constant <value_string = "1.0"> ()  y = Equal (x, k) }'
    head, rewrite = "opset = 19\n", "(x) => (y) { e = Equal (x, x)  y = Not (e) }"
    assert tried(model(text, opset=19), match, 'x = "any"', head=head, rewrite=rewrite) == (0, [])


def test_a_number_becomes_an_attribute() -> None:
    match = "(x) => (y) { a = Constant <value_float: float = @alpha> ()  t = Abs (x)  y = Mul (t, a) }"
    inputs = 'x = "T"\n[attributes]\nalpha = { type = "float" }'
    rewrite = "(x) => (y) { t = Abs (x)  y = Elu <alpha: float = @alpha> (t) }"
    proto = graph("t = Abs (x)  y = Mul (k, t)", "float[1] k = {0.3}")
    assert tried(proto, match, inputs, rewrite=rewrite)[0] == 1
    vector = graph("t = Abs (x)  y = Mul (k, t)", "float[3] k = {0.3, 0.3, 0.4}")
    assert tried(vector, match, inputs, rewrite=rewrite)[0] == 0
    fed = model("g (float[2] x, float k) => (float[2] y) { t = Abs (x)  y = Mul (k, t) }")
    assert tried(fed, match, inputs, rewrite=rewrite)[0] == 0


# Opsets


def test_an_operator_is_matched_only_where_it_means_the_same() -> None:
    """At 13 Softmax came to mean another thing: a rule verified for 13 alone leaves the older one."""
    match, head = "(x) => (y) { y = Softmax <axis: int = -1> (x) }", "opset = 13\n"
    rewrite = "(x) => (y) { y = Softplus (x) }"
    assert tried(graph("y = Softmax <axis = -1> (x)", opset=13), match, head=head, rewrite=rewrite)[0] == 1
    assert tried(graph("y = Softmax <axis = -1> (x)", opset=18), match, head=head, rewrite=rewrite)[0] == 1
    assert tried(graph("y = Softmax <axis = -1> (x)", opset=11), match, head=head, rewrite=rewrite)[0] == 0
    both = "opset = 13\nalso = [11]\n"
    assert tried(graph("y = Softmax <axis = -1> (x)", opset=11), match, head=both, rewrite=rewrite)[0] == 1


def test_an_operator_is_given_only_where_the_model_has_it() -> None:
    match, head = "(x) => (y) { y = Softplus (x) }", "opset = 20\nalso = [1]"
    rewrite = "(x) => (y) { y = Gelu (x) }"
    assert tried(graph("y = Softplus (x)", opset=20), match, head=head, rewrite=rewrite)[0] == 1
    count, reasons = tried(graph("y = Softplus (x)", opset=19), match, head=head, rewrite=rewrite)
    assert (count, reasons) == (0, ["needs opset 20, the model has 19"])


def test_batch_normalization_in_training_mode() -> None:
    """Below opset 14 further outputs mean training, from 14 on an attribute does."""
    match = """(x, s, b, m, v) => (y) { y = BatchNormalization (x, s, b, m, v) }"""
    inputs = "\n".join(f'{name} = "T"' for name in "xsbmv")
    text = "g (float[1,2,3] x) => (float[1,2,3] y) <float[2] s = {1, 2}> { %s = BatchNormalization %s (x, s, s, s, s) }"
    head = "opset = 15\nalso = [7, 9, 14]"
    cases: list[tuple[int, str, str, bool]] = [
        (9, "y", "", True), (9, "y, a, b, c, d", "", False), (15, "y", "", True),
        (15, "y, a, b", "<training_mode = 1>", False), (7, "y", "<spatial = 0>", False),
    ]  # fmt: skip
    for opset, outputs, attributes, expected in cases:
        assert applied(model(text % (outputs, attributes), opset=opset), match, inputs, head) == expected, (
            opset,
            outputs,
        )


def _tree(leaves: int) -> str:
    """Return lines that add up a0, a1 ... in pairs, and the pairs in pairs: 2 ** (leaves - 1) orders of operands."""
    names, lines = [f"a{index}" for index in range(leaves)], list[str]()
    while len(names) > 1:
        pairs = [(f"t{len(lines) + number}", *names[2 * number : 2 * number + 2]) for number in range(len(names) // 2)]
        lines += [f"{name} = Add ({first}, {second})" for name, first, second in pairs]
        names = [name for name, _, _ in pairs]
    return "  ".join((*lines, f"y = Abs ({names[0]})"))


def test_a_search_that_has_no_end_is_given_up_and_says_so() -> None:
    names = [f"a{index}" for index in range(16)]
    match = f"({', '.join(names)}) => (y) {{ {_tree(16)} }}"
    proto = model(f"g ({', '.join(f'float[2] {name}' for name in names)}) => (float[2] y) {{ {_tree(16)} }}")
    assert tried(proto, match, "\n".join(f'{name} = "T"' for name in names))[0] == 1
    guards = "\n".join(f'{name} = "T"' for name in names[:-1]) + '\na15 = "const T"'
    fired, (miss,) = tried(proto, match, guards)
    assert fired == 0
    assert miss == (
        "given up after 20,000 steps: its match text fits here in too many ways; "
        "until then: a15 ('a15') is not constant"
    )


def test_a_pattern_given_up_often_is_not_looked_for_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("onnxfuse.match.search.MAX_STEPS", 50)
    monkeypatch.setattr("onnxfuse.match.search.MAX_GIVEN_UP", 2)
    names = [f"a{index}" for index in range(8)]
    body = "  ".join(re.sub(r"\b(t\d+|y)\b", rf"n{number}_\1", _tree(8)) for number in range(4))
    outputs = [f"float[2] n{number}_y" for number in range(4)]
    proto = model(f"g ({', '.join(f'float[2] {n}' for n in names)}) => ({', '.join(outputs)}) {{ {body} }}")
    guards = "\n".join(f'{name} = "T"' for name in names[:-1]) + '\na7 = "const T"'
    _, misses = tried(proto, f"({', '.join(names)}) => (y) {{ {_tree(8)} }}", guards)
    assert len(misses) == 4
    assert sum(miss.startswith("given up after 50 steps") for miss in misses) == 2
    assert misses.count("not looked for here: it was given up at 2 nodes before") == 2
