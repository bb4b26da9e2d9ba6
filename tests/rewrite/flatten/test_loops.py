"""Loops that run a known number of times: written out they give the same, carried values and collected ones."""

from __future__ import annotations

import pytest

from ...helpers import fused, graphs, model, ops, weight_names


def loop(trips: int, body: str = "r = Mul (s, w)", go: str = "again = Identity (go)", start: str = "x") -> str:
    return f"""g (float[2] x) => (float[2] y) <bool true = {{1}}, int64 n = {{{trips}}}, float[2] w = {{1.5, -2}}> {{
        y = Loop (n, true, {start}) <body = l (int64 i, bool go, float[2] s) => (bool again, float[2] r) {{
            {go}  {body} }}> }}"""


@pytest.mark.parametrize("trips", [1, 3])
def test_carried_values(trips: int) -> None:
    result = fused(model(loop(trips, "h = Sin (s)  r = Mul (h, w)")))
    assert ops(result.model) == {"Sin": trips, "Mul": trips}
    assert result.fusions[0].rule == "loop-unrolling"
    names = [name for node in result.model.graph.node for name in node.output]
    assert len(names) == len(set(names))


def test_no_trip() -> None:
    text = loop(0, "r = Neg (s)").replace("y = Loop", "q = Abs (x)  y = Loop").replace("true, x)", "true, q)")
    assert ops(fused(model(text)).model) == {"Abs": 1}


def test_a_condition_that_is_false_from_the_start() -> None:
    text = (
        loop(5, "r = Neg (s)")
        .replace("bool true = {1}", "bool true = {0}")
        .replace("y = Loop", "q = Abs (x)  y = Loop")
    )
    assert ops(fused(model(text.replace("true, x)", "true, q)"))).model) == {"Abs": 1}


def test_the_number_of_the_trip_and_the_condition_are_read() -> None:
    body = "f = Cast <to = 1> (i)  k = Cast <to = 1> (go)  h = Mul (s, f)  r = Add (h, k)"
    assert "Loop" not in ops(fused(model(loop(3, body))).model)


def test_collected_values() -> None:
    text = """g (float[2] x) => (float[2] y, float[k,2] z) <bool true = {1}, int64 n = {3}> {
        y, z = Loop (n, true, x) <body = l (int64 i, bool go, float[2] s) => (bool again, float[2] r, float[2] e) {
            again = Identity (go)  r = Sin (s)  e = Exp (s) }> }"""
    for opset in (11, 18):
        assert "Loop" not in ops(fused(model(text, opset=opset, ir=8)).model)
    one = text.replace("n = {3}", "n = {1}")
    assert ops(fused(model(one)).model) == {"Sin": 1, "Exp": 1, "Unsqueeze": 1}


def test_nothing_is_collected_in_no_trip() -> None:
    text = """g (float[2] x) => (float[2] y, float[k,2] z) <bool true = {1}, int64 n = {0}> {
        y, z = Loop (n, true, x) <body = l (int64 i, bool go, float[2] s) => (bool again, float[2] r, float[2] e) {
            again = Identity (go)  r = Sin (s)  e = Exp (s) }> }"""
    assert "Loop" in ops(fused(model(text)).model)


def test_values_that_change_places() -> None:
    text = """g (float[2] x, float[2] v) => (float[2] y, float[2] z) <bool true = {1}, int64 n = {3}> {
        y, z = Loop (n, true, x, v) <body = l (int64 i, bool go, float[2] s, float[2] t)
            => (bool again, float[2] t, float[2] r) { again = Identity (go)  r = Sub (s, t) }> }"""
    assert "Loop" not in ops(fused(model(text)).model)


def test_weights_of_the_body_are_there_once() -> None:
    text = """g (float[2] x) => (float[2] y) <bool true = {1}, int64 n = {3}> {
        y = Loop (n, true, x) <body = l (int64 i, bool go, float[2] s) => (bool again, float[2] r)
            <float[2] k = {3, 4}> { again = Identity (go)  h = Sin (s)  r = Mul (h, k) }> }"""
    result = fused(model(text)).model
    assert ops(result) == {"Sin": 3, "Mul": 3}
    assert len(weight_names(result)) == 1


@pytest.mark.parametrize(
    "text",
    [
        loop(17), loop(16, "a = Sin (s)  b = Sin (a)  c = Sin (b)  d = Sin (c)  r = Sin (d)"),
        loop(3, "d = ReduceSum <keepdims = 0> (s)  z = Sub (d, d)  again = Equal (d, z)  r = Mul (s, w)", go=""),
        loop(3, "h = RandomNormalLike (s)  z = Sub (h, h)  r = Add (s, z)"),
        loop(3).replace("(float[2] x)", "(float[2] x, int64 n)").replace(", int64 n = {3}", ""),
    ],
    ids=["many trips", "many nodes", "may end early", "random", "number is fed"],
)  # fmt: skip
def test_stays(text: str) -> None:
    assert "Loop" in ops(fused(model(text)).model)


def test_once_is_unbounded() -> None:
    """A Loop that runs once becomes no larger, and draws as often as before."""
    body = "h = RandomNormalLike (s)  z = Sub (h, h)  r = Add (s, z)"
    assert "Loop" not in ops(fused(model(loop(1, body))).model)


def test_loops_in_each_other() -> None:
    inner = """Loop (n, true, s) <body = l2 (int64 j, bool go2, float[2] u) => (bool again2, float[2] v) {
        again2 = Identity (go2)  h = Sin (u)  v = Mul (h, w) }>"""
    result = fused(model(loop(2, f"q = {inner}  r = Exp (q)"))).model
    assert ops(result) == {"Sin": 4, "Mul": 4, "Exp": 2}
    names = [name for graph in graphs(result) for node in graph.node for name in node.output]
    assert len(names) == len(set(names))


def test_ignored() -> None:
    assert "Loop" in ops(fused(model(loop(2)), ignore=["loop-unrolling"]).model)
