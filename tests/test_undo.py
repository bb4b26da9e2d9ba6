"""What is undone where a result differs: what is at fault, all of it, and nothing else."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from onnx import ModelProto

import onnxfuse
from onnxfuse.errors import ValidationError
from onnxfuse.model.file import ModelFile
from onnxfuse.pipeline import Result
from onnxfuse.report.text import render
from onnxfuse.rewrite import cleanup
from tests.helpers import TOLERANCES, batchnorm, model, noise, ops, rule_file, run

RULES = Path(__file__).parents[1] / "rules"
PAIRS = 12
CHANNELS = 4

# The rewrite takes an epsilon of 1e-5 for granted: right only where the model has that one.
ASSUMED = ("eps     = Constant <value_float: float = @epsilon> ()", "eps     = Constant <value_float: float = 1e-5> ()")


def damaged_rule(folder: Path) -> Path:
    """Return a conv-batchnorm whose rewrite is wrong wherever epsilon is not 1e-5."""
    text = (RULES / "conv" / "conv-batchnorm.toml").read_text()
    assert ASSUMED[0] in text
    path = folder / "conv-batchnorm.toml"
    path.write_text(text.replace(*ASSUMED))
    return path


def pairs(guilty: Sequence[int], *, chained: bool) -> ModelProto:
    """Return Convs with a BatchNormalization each, side by side or in a row; the guilty ones have an epsilon of 0.5."""
    lines, weights = [], {}
    for i in range(PAIRS):
        source = f"b{i - 1}" if chained and i else "x"
        epsilon = 0.5 if i in guilty else 1e-5
        lines.append(f"t{i} = Conv (x, w{i})" if source == "x" else f"t{i} = Conv ({source}, w{i})")
        lines.append(f"b{i} = BatchNormalization <epsilon: float = {epsilon}> (t{i}, s{i}, o{i}, m{i}, v{i})")
        weights[f"w{i}"] = noise(CHANNELS, CHANNELS, 1, 1, seed=i) * np.float32(0.6)
        weights.update({f"{k}{i}": v for k, v in batchnorm(CHANNELS, seed=i).items()})
    total = f"y = Identity (b{PAIRS - 1})" if chained else f"y = Sum ({', '.join(f'b{i}' for i in range(PAIRS))})"
    body = "\n".join([*lines, total])
    return model(f"g (float[1, {CHANNELS}, 3, 3] x) => (float[1, {CHANNELS}, 3, 3] y) {{ {body} }}", weights)


def assert_same(before: ModelProto, after: ModelProto) -> None:
    x = noise(1, CHANNELS, 3, 3, seed=99)
    wanted, found = run(before, {"x": x})["y"], run(after, {"x": x})["y"]
    assert np.abs(wanted - found).max() <= 10 * TOLERANCES["float32"] * np.abs(wanted).max()


def sites(result: Result) -> set[str]:
    return {name for undone in result.report.undone for name in undone.fusion.outputs}


@pytest.mark.parametrize("chained", [False, True], ids=["side-by-side", "in-a-row"])
@pytest.mark.parametrize("guilty", [[5], [0, 4, 11], [0, 1, 2, 3, 4, 6, 7, 8, 10, 11]], ids=len)
def test_the_guilty_sites_and_only_they_are_undone(tmp_path: Path, guilty: list[int], chained: bool) -> None:
    proto = pairs(guilty, chained=chained)
    result = onnxfuse.optimize(proto, rules=[damaged_rule(tmp_path)], verify_rules=False, select=["conv-batchnorm"])
    assert sites(result) == {f"b{i}" for i in guilty}
    assert all(undone.check is not None and not undone.check.ok for undone in result.report.undone)
    assert ops(result.model)["BatchNormalization"] == len(guilty)
    assert result.validation is not None and result.validation.ok
    assert_same(proto, result.model)


def test_the_same_is_undone_each_time(tmp_path: Path) -> None:
    proto, rule = pairs([1, 7], chained=True), damaged_rule(tmp_path)
    first, second = (onnxfuse.optimize(proto, rules=[rule], verify_rules=False) for _ in range(2))
    assert first.report.to_json() == second.report.to_json()
    assert first.model.SerializeToString(deterministic=True) == second.model.SerializeToString(deterministic=True)


def test_in_a_nested_graph(tmp_path: Path) -> None:
    text = f"""g (float[1, {CHANNELS}, 3, 3] x, bool c) => (float[1, {CHANNELS}, 3, 3] y) {{
        y = If (c) <
            then_branch = t () => (float[1, {CHANNELS}, 3, 3] p) {{
                a = Conv (x, w)  p = BatchNormalization <epsilon: float = 0.5> (a, s, o, m, v) }},
            else_branch = e () => (float[1, {CHANNELS}, 3, 3] q) {{
                d = Conv (x, w)  q = BatchNormalization <epsilon: float = 1e-5> (d, s, o, m, v) }}
        > }}"""
    proto = model(text, {"w": noise(CHANNELS, CHANNELS, 1, 1), **batchnorm(CHANNELS)})
    result = onnxfuse.optimize(proto, rules=[damaged_rule(tmp_path)], verify_rules=False, select=["conv-batchnorm"])
    assert result.validation is not None and result.validation.ok
    assert sites(result) <= {"p", "q"} and "p" in sites(result)
    x = noise(1, CHANNELS, 3, 3)
    for c in (True, False):
        feeds = {"x": x, "c": np.array(c)}
        np.testing.assert_allclose(run(result.model, feeds)["y"], run(proto, feeds)["y"], rtol=1e-4, atol=1e-4)


def test_what_does_not_even_run_is_undone(tmp_path: Path) -> None:
    """No value can be shown of a result that does not run: an index beyond the end."""
    text = "g (float[2, 4] x) => (float[2, 4] y) { n = Neg (x)  i = Identity (n)  y = Reciprocal (i) }"
    rule = rule_file(
        tmp_path,
        "(x) => (y) { n = Neg (x) y = Reciprocal (n) }",
        "(x) => (y) { at = Constant <value_ints: ints = [0, 9]> () n = Gather (x, at) y = Reciprocal (n) }",
        'x = "T[2, N]"',
        name="beyond",
        head="opset = 18",
    )
    result = onnxfuse.optimize(model(text), rules=[rule], verify_rules=False)
    assert sites(result) == {"y"} and result.report.undone[0].check is None
    assert ops(result.model) == {"Neg": 1, "Reciprocal": 1}
    assert result.validation is not None and result.validation.ok


def test_on_mismatch_fail_names_what_is_at_fault_and_writes_nothing(tmp_path: Path) -> None:
    out = tmp_path / "out.onnx"
    with pytest.raises(ValidationError) as caught:
        onnxfuse.optimize(
            pairs([3], chained=False),
            rules=[damaged_rule(tmp_path)],
            verify_rules=False,
            output=out,
            on_mismatch="fail",
        )
    report = caught.value.report  # type: ignore[attr-defined]
    assert not out.exists() and not report.undone
    assert [step for step in report.steps if "rule 'conv-batchnorm' at 'b3'" in step]


def test_a_clean_up_step_at_fault_is_left_out_and_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """A `static-reshape` gone wrong would be one: here merging equal nodes merges what is not equal."""
    monkeypatch.setattr(cleanup, "_identity_of", lambda node, constants: node.op if node.op == "Neg" else None)
    text = """g (float[4] x, float[4] z) => (float[4] y) {
        a = Neg (x)  b = Neg (z)  i = Identity (b)  y = Sub (a, i) }"""
    result = onnxfuse.optimize(model(text))
    assert result.validation is not None and result.validation.ok
    assert any("'common-subexpression' is left out" in step for step in result.report.steps)
    assert ops(result.model) == {"Neg": 2, "Sub": 1}  # the Identity is still removed


def test_raising_at_fault_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    from onnxfuse.model import opset

    true = opset.raise_opset

    def wrong(file: ModelFile, wanted: int) -> ModelFile:
        raised = true(file, wanted)
        proto = ModelProto()
        proto.CopyFrom(raised.proto)
        next(node for node in proto.graph.node if node.op_type == "Sin").op_type = "Cos"
        return raised.with_proto(proto)

    monkeypatch.setattr(opset, "raise_opset", wrong)
    text = """g (float[2, 8] x) => (float[2, 8] y, float[2, 8] z) {
        h = Constant <value_float: float = 1.4142135> ()  k = Constant <value_float: float = 0.5> ()
        one = Constant <value_float: float = 1.0> ()
        d = Div (x, h)  e = Erf (d)  p = Add (e, one)  q = Mul (x, p)  y = Mul (q, k)  s = Sin (x)  z = Neg (s) }"""
    result = onnxfuse.optimize(model(text, opset=18))
    assert result.validation is not None and result.validation.ok
    assert result.report.model.opset.after == 18 and ops(result.model)["Erf"] == 1
    assert result.report.steps[0].startswith("the opset is kept: raised to 20 alone, output 'z'")


def test_the_report_says_what_was_undone_and_why(tmp_path: Path) -> None:
    result = onnxfuse.optimize(
        pairs([3], chained=False), rules=[damaged_rule(tmp_path)], verify_rules=False, select=["conv-batchnorm"]
    )
    text = render(result.report)
    assert "! undone conv-batchnorm  Conv 't3' + BatchNormalization 'b3' -> Conv" in text
    assert "since 'b3' float32[1, 4, 3, 3]: max abs" in text
    assert "11 fusions, 1 undone" in text
    (undone,) = json.loads(result.report.to_json())["undone"]
    assert undone["rule"] == "conv-batchnorm" and undone["check"]["name"] == "b3" and not undone["check"]["ok"]
    assert any(miss.reason.startswith("undone: ") for miss in result.report.near_misses)
