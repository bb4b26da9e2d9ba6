"""The guards of [inputs]: for each a case that breaks only it, and what the report then says."""

from __future__ import annotations

import onnx
import pytest
from onnx import ModelProto

from ..helpers import model
from .rules import EVERY, tried

ADD = "(a, b) => (y) { t = Abs (a)  y = Add (t, b) }"


def spelled(dims: str, name: str, elem_type: str = "float") -> str:
    """Return a typed name as ONNX text: `float[]` would be of unknown rank there, not of rank 0."""
    return f"{elem_type}[{dims}] {name}" if dims else f"{elem_type} {name}"


def pair(a: str = "float[2,3] a", b: str = "float[2,3] b", y: str = "float[2,3] y", constants: str = "") -> ModelProto:
    inputs = ", ".join(text for text in (a, b) if text)
    return model(f"g ({inputs}) => ({y}) <{constants}> {{ t = Abs (a)  y = Add (t, b) }}".replace("<>", ""))


def outcome(proto: ModelProto, a: str, b: str, head: str = EVERY) -> tuple[int, list[str]]:
    return tried(proto, ADD, f'a = "{a}"\nb = "{b}"', head=head)


# Constness


def test_const() -> None:
    constant = pair(b="", constants="float[3] b = {1, 2, 3}")
    assert outcome(constant, "T", "const T")[0] == 1
    assert outcome(pair(), "T", "const T") == (0, ["b ('b') is not constant"])


def test_a_constant_of_the_outer_scope_is_constant_and_a_body_input_is_not() -> None:
    text = """g (bool c, float[2] x, float[2] b) => (float[2] y) <float[2] k = {1, 2}> {
        y = If (c) <then_branch = p () => (float[2] u) { t = Abs (x)  u = Add (t, k) },
                    else_branch = q () => (float[2] v) { r = Abs (x)  v = Add (r, b) }> }"""
    count, reasons = tried(model(text), ADD, 'a = "T"\nb = "const T"')
    assert (count, reasons) == (1, ["b ('b') is not constant"])


# Element types


def test_a_type_the_rule_is_not_verified_for() -> None:
    proto = pair("double[2,3] a", "double[2,3] b", "double[2,3] y")
    assert outcome(proto, "T", "T")[0] == 0
    assert "x ('x') is double, for which the rule is not proven" in str(tried(
        model("g (double[2] x) => (double[2] y) { y = Abs (x) }"), "(x) => (y) { y = Abs (x) }"
    ))  # fmt: skip
    assert outcome(proto, "T", "T", EVERY + 'types = ["float", "double"]')[0] == 1


def test_a_concrete_type() -> None:
    match, rewrite = "(x, i) => (y) { t = Abs (x)  y = Gather (t, i) }", "(x, i) => (y) { y = Gather (x, i) }"
    text = "g (float[4] x, %s[2] i) => (float[2] y) { t = Abs (x)  y = Gather (t, i) }"
    inputs = 'x = "T"\ni = "int64"'
    assert tried(model(text % "int64"), match, inputs, rewrite=rewrite)[0] == 1
    assert tried(model(text % "int32"), match, inputs, rewrite=rewrite) == (0, ["i ('i') is int32, not int64"])


def test_one_type_variable_is_one_type() -> None:
    match, rewrite = "(x, p) => (y) { t = Abs (x)  y = Pow (t, p) }", "(x, p) => (y) { y = Pow (x, p) }"
    text = "g (float[4] x, %s[4] p) => (float[4] y) { t = Abs (x)  y = Pow (t, p) }"
    head = EVERY + 'types = ["float", "double"]'
    assert tried(model(text % "float"), match, 'x = "T"\np = "T"', head=head, rewrite=rewrite)[0] == 1
    assert tried(model(text % "double"), match, 'x = "T"\np = "T"', head=head, rewrite=rewrite) == (
        0,
        ["p ('p') is double, the others are float"],
    )
    two = EVERY + 'types = { T = ["float"], U = ["double"] }'
    assert tried(model(text % "double"), match, 'x = "T"\np = "U"', head=two, rewrite=rewrite)[0] == 1


def test_an_unknown_type_is_a_near_miss() -> None:
    text = "g (float[2] x) => (float[2] y) { u = com.acme.Odd (x)  y = Abs (u) }"
    count, reasons = tried(model(text, imports={"com.acme": 1}), "(x) => (y) { y = Abs (x) }")
    assert (count, reasons) == (0, ["the element type of x ('u') is not known"])


def test_any_type() -> None:
    match, rewrite = (
        "(x) => (y) { t = Cast <to: int = 1> (x)  y = Abs (t) }",
        "(x) => (y) { y = Cast <to: int = 1> (x) }",
    )
    proto = model("g (int32[2] x) => (float[2] y) { t = Cast <to = 1> (x)  y = Abs (t) }")
    assert tried(proto, match, 'x = "any"', rewrite=rewrite)[0] == 1
    assert tried(proto, match, 'x = "T"', rewrite=rewrite)[0] == 0


# Dims


@pytest.mark.parametrize(
    "guard, dims, expected",
    [
        ("T[N]", "2", 1), ("T[N]", "2,3", 0), ("T[N]", "", 0), ("T[]", "", 1), ("T[]", "1", 0),
        ("T[2, 3]", "2,3", 1), ("T[2, 3]", "2,4", 0), ("T[2, 3]", "2,n", 0), ("T[2, _]", "2,n", 1),
        ("T[N, N]", "3,3", 1), ("T[N, N]", "3,4", 0), ("T[N, N]", "n,n", 1), ("T[N, N]", "n,m", 0),
        ("T[N, N]", "?,?", 0), ("T[N, M]", "?,?", 1), ("T[_, _]", "3,4", 1),
        ("T[N, ...]", "2", 1), ("T[N, ...]", "2,3,4", 1), ("T[N, ...]", "", 0), ("T[...]", "", 1),
        ("T[..., N]", "2,3", 1), ("T[N, ..., N]", "3,4,3", 1), ("T[N, ..., N]", "3,4,4", 0), ("T[N, ..., N]", "3", 0),
        ("T[N, ..., N]", "3,3", 1), ("T[1, ...]", "1,3", 1), ("T[1, ...]", "2,3", 0),
    ],
)  # fmt: skip
def test_dims(guard: str, dims: str, expected: int) -> None:
    text = f"g ({spelled(dims, 'x')}) => ({spelled(dims, 'y')}) {{ y = Abs (x) }}"
    assert tried(model(text), "(x) => (y) { y = Abs (x) }", f'x = "{guard}"')[0] == expected


def test_an_unknown_rank() -> None:
    proto = model("g (float[2] x) => (float[2] y) { y = Abs (x) }")
    for value in (proto.graph.input[0], proto.graph.output[0]):
        value.type.tensor_type.ClearField("shape")
    match = "(x) => (y) { y = Abs (x) }"
    assert tried(proto, match, 'x = "T"')[0] == 1
    assert tried(proto, match, 'x = "T[...]"') == (0, ["the rank of x ('x') is not known"])


def test_a_dim_shared_by_two_inputs() -> None:
    assert outcome(pair(), "T[M, N]", "T[M, N]")[0] == 1
    ones = pair("float[2,3] a", "float[1,3] b")
    assert outcome(ones, "T[M, N]", "T[M, N]") == (0, ["a dim of b ('b', [1, 3]) is 1, not M = 2"])
    assert outcome(ones, "T[M, N]", "T[L, N]")[0] == 1


def test_symbols_are_equal_only_to_themselves() -> None:
    assert outcome(pair("float[n,3] a", "float[n,3] b", "float[n,3] y"), "T[N, _]", "T[N, _]")[0] == 1
    assert outcome(pair("float[n,3] a", "float[m,3] b", "float[p,3] y"), "T[N, _]", "T[N, _]")[0] == 0


def test_an_unknown_dim_is_equal_to_no_other() -> None:
    assert outcome(pair("float[?,3] a", "float[?,3] b", "float[?,3] y"), "T[N, _]", "T[N, _]") == (
        0,
        ["a dim of b ('b', [?, 3]) is an unknown dim, not N = an unknown dim"],
    )


@pytest.mark.parametrize(
    "a, b, expected",
    [("2,3,4", "4", 1), ("2,3,4", "3,4", 1), ("2,3,4", "2,3,4", 1), ("2,3,4", "1,4", 0), ("2,3,4", "3,1", 0),
     ("2,n,4", "n,4", 1), ("2,3,4", "", 1)],
)  # fmt: skip
def test_a_group_of_trailing_dims(a: str, b: str, expected: int) -> None:
    proto = pair(f"float[{a}] a", spelled(b, "b"), f"float[{a}] y")
    assert outcome(proto, "T[..., V...]", "T[V...]")[0] == expected


# One-way broadcast


@pytest.mark.parametrize(
    "b, expected",
    [("", 1), ("1", 1), ("3", 1), ("1,3", 1), ("2,1", 1), ("2,3", 1), ("1,1,3", 0), ("1,1", 1)],
)
def test_onto(b: str, expected: int) -> None:
    y = "1,2,3" if b == "1,1,3" else "2,3"
    assert outcome(pair(b=spelled(b, "b"), y=f"float[{y}] y"), "T[M, N]", "T -> [M, N]")[0] == expected


@pytest.mark.parametrize("a, b", [("1,3", "2,3"), ("2,1", "2,3"), ("2,1", "3")])
def test_onto_never_makes_the_result_larger(a: str, b: str) -> None:
    count, reasons = outcome(pair(f"float[{a}] a", f"float[{b}] b"), "T[M, N]", "T -> [M, N]")
    assert count == 0
    assert "does not broadcast one way to [" in reasons[0]


@pytest.mark.parametrize("b, expected", [("n,3", 1), ("m,3", 0), ("1,3", 1), ("?,3", 0), ("2,3", 0)])
def test_onto_symbolic_dims(b: str, expected: int) -> None:
    proto = pair("float[n,3] a", f"float[{b}] b", "float[p,3] y")
    assert outcome(proto, "T[M, N]", "T -> [M, N]")[0] == expected


# Attributes


def test_covers_and_among() -> None:
    match = "(x) => (y) { axes = Constant <value_ints: ints = @axes> ()  t = ReduceMean (x, axes)  y = Sub (x, t) }"
    inputs = 'x = "T[..., V...]"\n[attributes]\naxes = { type = "ints", covers = "V" }'
    for axes, expected in (("-1", 1), ("1, 2", 1), ("0, 1, 2", 1), ("1", 0), ("0", 0), ("0, 2", 0)):
        count = axes.count(",") + 1
        text = f"""g (float[2,3,4] x) => (float[2,3,4] y) <int64[{count}] k = {{{axes}}}>
            {{ t = ReduceMean (x, k)  y = Sub (x, t) }}"""
        assert tried(model(text), match, inputs)[0] == expected, axes
    match = "(x) => (y) { t = Cast <to: int = @to> (x)  y = Abs (t) }"
    inputs = 'x = "any"\n[attributes]\nto = { type = "type", among = ["float", "double"] }'
    rewrite = "(x) => (y) { y = Cast <to: int = @to> (x) }"
    for number, name, expected in ((1, "float", 1), (11, "double", 1), (10, "float16", 0)):
        proto = model(f"g (int32[2] x) => ({name}[2] y) {{ t = Cast <to = {number}> (x)  y = Abs (t) }}")
        assert tried(proto, match, inputs, rewrite=rewrite)[0] == expected
    assert onnx.TensorProto.FLOAT16 == 10


# Absent inputs


def test_optional_and_what_stands_for_it() -> None:
    match = "(x, w, b) => (y) { t = Conv (x, w, b)  y = Abs (t) }"
    rewrite = "(x, w, b) => (y) { n = Neg (b)  y = Conv (x, w, n) }"
    inputs = 'x = "T"\nw = "const T[M, ...]"\nb = "const T[M]?"\n[absent]\nb = "Constant <value = float[1] {0}> ()"'
    text = """g (float[1,1,4] x) => (float[1,1,3] y) <float[1,1,2] w = {1, 2}, float[1] b = {3}> {
        t = Conv (%s)  y = Abs (t) }"""
    assert tried(model(text % "x, w"), match, inputs, rewrite=rewrite)[0] == 1
    assert tried(model(text % "x, w, b"), match, inputs, rewrite=rewrite)[0] == 1
    required = inputs.replace("]?", "]").split("[absent]")[0]
    assert tried(model(text % "x, w, b"), match, required, rewrite=rewrite)[0] == 1
    assert tried(model(text % "x, w"), match, required, rewrite=rewrite)[0] == 0


# Groups, and ones in their place

ONES = "(w, c) => (y) { t = Abs (w)  y = Add (t, c) }"


@pytest.mark.parametrize(
    "c, expected", [("", 1), ("1", 1), ("2,1,1", 1), ("1,2,1,1", 1), ("2", 0), ("2,2", 0), ("5,1,1,1", 0)]
)
def test_ones_for_each_dim_of_a_group(c: str, expected: int) -> None:
    shape = "5,2,2,2" if c == "5,1,1,1" else "1,2,2,2"
    text = f"g (float[1,2,2,2] w, {spelled(c, 'c')}) => (float[{shape}] y) {{ t = Abs (w)  y = Add (t, c) }}"
    count, reasons = tried(model(text), ONES, 'w = "T[_, M, S...]"\nc = "T -> [1, M, 1*S]"')
    assert count == expected
    assert bool(reasons) != bool(expected) and all("does not broadcast one way to [1, 2, 1, 1]" in r for r in reasons)


def test_own() -> None:
    text = "g (float[2] x) => (float[2] y%s) <float[2] c = {1, 2}> {{ t = Abs (x)  y = Add (t, c) %s }}".replace(
        "{{", "{"
    ).replace("}}", "}")
    inputs = 'a = "T"\nb = "own const T"'
    assert tried(model(text % ("", "")), ADD, inputs)[0] == 1
    shared = model(text % (", float[2] z", "z = Mul (x, c)"))
    assert tried(shared, ADD, inputs) == (0, ["b ('c') would be there twice, since 'c' is read elsewhere, too"])
    made_of = model("""g (float[2] x) => (float[2] y, float[2] z) <float[2] w = {1, 2}> {
        c = Neg (w)  t = Abs (x)  y = Add (t, c)  z = Mul (x, w) }""")
    assert tried(made_of, ADD, inputs) == (0, ["b ('c') would be there twice, since 'w' is read elsewhere, too"])


def test_an_empty_value_is_left_alone() -> None:
    """onnxruntime's LayerNormalization refuses an empty axis, which its steps written out do not."""
    reason = "b ('b') is empty, which not every fused operator takes"
    assert outcome(pair(a="float[2,0] a", b="float[0] b", y="float[2,0] y"), "any", "any")[0] == 0
    assert outcome(pair(a="float[2,1] a", b="float[0] b", y="float[2,0] y"), "any", "any") == (0, [reason])
