"""Why not: what is said of a model that an exporter wrote in another way."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from onnxfuse.cli.main import main
from onnxfuse.errors import UsageError
from onnxfuse.explaining import explain
from tests.helpers import model, noise

WEIGHTS: dict[str, Any] = {
    "two": np.asarray(2.0, np.float32),
    "eps": np.asarray(1e-5, np.float32),
    "s": noise(8),
    "b": noise(8, seed=3),
}
LAYERNORM = """g (float[2, 8] x) => (float[2, 8] y) {
    m = ReduceMean <axes: ints = [-1]> (x)
    d = Sub (x, m)
    p = Pow (d, two)
    v = ReduceMean <axes: ints = [-1]> (p)
    e = Add (v, eps)
    r = Sqrt (e)
    n = Div (d, r)
    k = Mul (n, s)
    y = Add (k, b)
}"""


THREE = np.asarray(3.0, np.float32)


def layernorm(old: str = "", new: str = "", opset: int = 17, **weights: Any) -> onnx.ModelProto:
    """Return a written-out LayerNormalization with one place of its text replaced, and other weights."""
    text = LAYERNORM.replace(old, new) if old else LAYERNORM
    assert not old or text != LAYERNORM
    return model(text, {**WEIGHTS, **weights}, opset=opset)


# Ways in which an exporter may change, and the reason that must be found.
CHANGES = [
    (layernorm("[-1]> (x)", "[0]> (x)"), r"'axes' of ReduceMean '.* v' is \[-1\], .* \[-2\] .*as elsewhere"),
    (layernorm(two=THREE), "'two' of Pow .* is 3, the rule wants 2"),
    (layernorm("Sub (x, m)", "Sub (m, x)"), "Sub .* reads 'x', an input of the graph: .* from ReduceMean"),
    (layernorm("Div (d, r)", "Div (r, d)"), "Div .* reads 'r' from Sqrt .*: the rule wants it from Sub"),
    (layernorm("[-1]> (p)", "[-1], keepdims: int = 0> (p)"), "'keepdims' of ReduceMean .* is 0, .* wants 1"),
    (layernorm("[2, 8] y) {", "[2, 8] y, float[2, 8] d) {"), "^'d' is a graph output$"),
    (layernorm("y = Add (k, b)", "f = Add (k, b) u = Relu (v) y = Add (f, u)"), "^'v' is also read by 'Relu -> u'$"),
    (layernorm(eps=noise(8)), r"'eps' of Add .* is a constant of shape \[8\], .* one constant \('epsilon'\)"),
    (layernorm("v = ReduceMean", "v = ReduceMax"), "Add .* reads 'v' from ReduceMax .* from ReduceMean"),
    (layernorm("e = Add (v, eps)", "a = Abs (v) e = Add (a, eps)"), "reads 'a' from Abs .* from ReduceMean"),
    (layernorm(opset=16), "^needs opset 17, the model has 16$"),
]


@pytest.mark.parametrize(("proto", "reason"), CHANGES, ids=[reason for _, reason in CHANGES])
def test_the_reason_is_found(proto: onnx.ModelProto, reason: str) -> None:
    found = explain(proto, opset="keep", rule=["layernorm"])
    assert not found.fusions
    assert re.search(reason, found.why_not[0].reasons[0]), found.why_not[0]


def test_the_nearest_comes_first_and_what_is_far_is_left_out() -> None:
    found = explain(layernorm(two=THREE), opset="keep").why_not
    left = [one.of - one.matched for one in found]
    assert left == sorted(left) and found[0].rule == "layernorm"
    assert all(one.matched >= 3 or one.matched == one.of for one in found)
    assert len(explain(layernorm(two=THREE), opset="keep", rule=["*"]).why_not) > len(found)


def test_a_rule_is_explained_although_one_of_its_operators_is_nowhere() -> None:
    """The quick way to choose rules would not even read it."""
    found = explain(layernorm("r = Sqrt (e)", "r = Exp (e)"), rule=["layernorm"], opset="keep").why_not
    assert "reads 'r' from Exp" in found[0].reasons[0] and "Sqrt" in found[0].reasons[0]


def test_a_node_that_was_fused_is_told_with_its_fusion() -> None:
    found = explain(layernorm(), node="p")
    assert [fusion.rule for fusion in found.fusions] == ["layernorm"]


def test_an_unknown_node_is_an_error_with_a_suggestion() -> None:
    with pytest.raises(UsageError, match="no node, and no value that one gives, is called 'pp'; did you mean 'p'"):
        explain(layernorm(), node="pp")
    with pytest.raises(UsageError, match="no rule is called"):
        explain(layernorm(), rule=["layernrm"])


def test_in_a_nested_graph() -> None:
    text = """g (bool c, float[2] x) => (float[2] y) {
        y = If (c) <then_branch = t () => (float[2] a) { a = Neg (x) },
                    else_branch = e () => (float[2] b) { j = Neg (x) k = Neg (j) b = Add (j, k) }> }"""
    found = explain(model(text)).why_not
    assert [(one.scope, one.reasons) for one in found] == [("If.else_branch/", ("'j' is also read by 'Add -> b'",))]


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "m.onnx"
    onnx.save(layernorm(two=THREE), path)
    assert main(["explain", str(path), "--opset", "keep", "--rule", "layernorm"]) == 0
    out = capsys.readouterr().out
    assert "- layernorm  not at 2 places" in out and "'two' of Pow 'Pow -> p' is 3, the rule wants 2" in out
    assert main(["explain", str(path), "--opset", "keep", "--format", "json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["why_not"][0]["rule"] == "layernorm" and document["why_not"][0]["stopped_at"] == "Pow -> p"
    assert main(["explain", str(tmp_path / "none.onnx")]) == 2
    assert capsys.readouterr().err.startswith("error: ")
