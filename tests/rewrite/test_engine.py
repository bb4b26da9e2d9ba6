"""The fixpoint: rules open the way for rules, in their order, and rules that chase each other end in an error."""

from __future__ import annotations

from pathlib import Path

import pytest

from onnxfuse.errors import EndlessRulesError
from onnxfuse.pipeline import optimize

from ..helpers import batchnorm, fused, misses, model, noise, ops, rule_file

HEAD = "opset = 18\nalso = [1, 6, 8, 13]"
X = 'x = "T"'


def unary(folder: Path, before: str, after: str, name: str, order: int = 50) -> Path:
    """Write a rule that turns one operator into others."""
    lines = "  ".join(f"t{i + 1} = {op} (t{i})" for i, op in enumerate(after.split()))
    lines = lines.replace("(t0)", "(x)").replace(f"t{len(after.split())} =", "y =")
    text = f"(x) => (y) {{ y = {before} (x) }}"
    return rule_file(folder, text, f"(x) => (y) {{ {lines} }}", X, name=name, head=f"{HEAD}\norder = {order}")


def test_one_rule_opens_the_way_for_another(tmp_path: Path) -> None:
    rules = [unary(tmp_path, "Softsign", "Sinh", "a"), unary(tmp_path, "Sinh", "Cosh Tan", "b")]
    result = optimize(
        model("g (float[2] x) => (float[2] y) { y = Softsign (x) }", opset=18),
        validate=False,
        rules=rules,
        verify_rules=False,
    )
    assert ops(result.model) == {"Cosh": 1, "Tan": 1}
    assert [fusion.rule for fusion in result.fusions] == ["a", "b"]


def test_a_rule_that_opens_the_way_for_an_earlier_one(tmp_path: Path) -> None:
    rules = [unary(tmp_path, "Softsign", "Sinh", "z", 90), unary(tmp_path, "Sinh", "Tan", "b", 10)]
    result = optimize(
        model("g (float[2] x) => (float[2] y) { y = Softsign (x) }"), validate=False, rules=rules, verify_rules=False
    )
    assert ops(result.model) == {"Tan": 1}


def test_rules_of_lower_order_come_first(tmp_path: Path) -> None:
    rules = [unary(tmp_path, "Softsign", "Tan", "a", 60), unary(tmp_path, "Softsign", "Cosh", "b", 40)]
    result = optimize(
        model("g (float[2] x) => (float[2] y) { y = Softsign (x) }"), validate=False, rules=rules, verify_rules=False
    )
    assert ops(result.model) == {"Cosh": 1}


def test_rules_that_chase_each_other_end_in_an_error(tmp_path: Path) -> None:
    rules = [unary(tmp_path, "Sinh", "Cosh", "a"), unary(tmp_path, "Cosh", "Sinh", "b")]
    with pytest.raises(EndlessRulesError, match=r"leave one of them out: 'a' \(.*a\.toml\), 'b' \(.*b\.toml\)"):
        optimize(
            model("g (float[2] x) => (float[2] y) { y = Sinh (x) }"), validate=False, rules=rules, verify_rules=False
        )


def test_a_rule_that_grows_without_end_ends_in_an_error(tmp_path: Path) -> None:
    rules = [unary(tmp_path, "Sinh", "Sinh Tan", "a")]
    with pytest.raises(EndlessRulesError, match="do not come to an end"):
        optimize(
            model("g (float[2] x) => (float[2] y) { y = Sinh (x) }"), validate=False, rules=rules, verify_rules=False
        )


def test_a_chain_of_batch_normalizations() -> None:
    text = """g (float[1,2,5,5] x) => (float[1,3,3,3] y) { t = Conv (x, w)
        a = BatchNormalization (t, s, o, m, v)  b = BatchNormalization (a, o, s, m, v)
        y = BatchNormalization (b, m, o, s, v) }"""
    assert ops(fused(model(text, {"w": noise(3, 2, 3, 3), **batchnorm(3)})).model) == {"Conv": 1}


def test_clean_up_opens_the_way_for_rules() -> None:
    text = """g (float[1,2,5,5] x) => (float[1,3,3,3] y) { t = Conv (x, w)  d = Dropout (t)  i = Identity (d)
        c = Cast <to = 1> (i)  n = BatchNormalization (c, s, o, m, v)  y = Identity (n) }"""
    assert ops(fused(model(text, {"w": noise(3, 2, 3, 3), **batchnorm(3)})).model) == {"Conv": 1}


def test_optimizing_twice_changes_nothing() -> None:
    text = """g (float[3,4] x) => (float[3,4] y) <int64[1] ax = {-1}, float eps = {0.01}, float two = {2}> {
        i = Identity (x)  t = MatMul (i, w)  a = Add (t, b)  m = ReduceMean (a, ax)  d = Sub (a, m)  p = Pow (d, two)
        v = ReduceMean (p, ax)  e = Add (v, eps)  r = Sqrt (e)  n = Div (d, r)  q = Mul (n, b)  y = Add (q, b) }"""
    once = fused(model(text, {"w": noise(4, 4), "b": noise(4)})).model
    assert ops(once) == {"Gemm": 1, "LayerNormalization": 1}
    assert fused(once).fusions == ()


def test_the_larger_match_wins_over_its_parts() -> None:
    """A LayerNormalization's bias must not be taken for another rule's."""
    text = """g (float[3,4] x) => (float[3,4] y) <int64[1] ax = {-1}, float eps = {0.01}> {
        m = ReduceMean (x, ax)  d = Sub (x, m)  p = Mul (d, d)  v = ReduceMean (p, ax)  e = Add (v, eps)  r = Sqrt (e)
        n = Div (d, r)  q = Mul (n, b)  y = Add (q, b) }"""
    result = fused(model(text, {"b": noise(4)}))
    assert [fusion.rule for fusion in result.fusions] == ["layernorm"]


def test_near_misses_of_nodes_that_are_gone_are_not_told() -> None:
    text = "g (float[2,4] x) => (float[2,5] y) { t = MatMul (x, w)  a = Add (t, b)  y = Identity (a) }"
    result = fused(model(text, {"w": noise(4, 5), "b": noise(5)}))
    assert ops(result.model) == {"Gemm": 1}
    assert not result.report.near_misses


def test_a_near_miss_is_told_once() -> None:
    text = "g (float[2,4] x) => (float[2,5] y, float[2,5] t) { t = MatMul (x, w)  y = Add (t, b) }"
    result = fused(model(text, {"w": noise(4, 5), "b": noise(5)}))
    assert misses(result, "matmul-add") == ["'t' is a graph output"]


def test_a_reader_that_goes_makes_room_for_a_rule() -> None:
    """The shape of the convolution's result is known: once it is folded, nobody else reads the result."""
    text = """g (float[1,2,5,5] x, int64[4] i) => (float[1,3,3,3] y, int64[4] z) {
        t = Conv (x, w)  y = BatchNormalization (t, s, o, m, v)  k = Shape (t)  z = Add (k, i) }"""
    result = fused(model(text, {"w": noise(3, 2, 3, 3), **batchnorm(3)}))
    assert "BatchNormalization" not in ops(result.model)
