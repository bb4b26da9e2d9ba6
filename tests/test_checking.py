"""The gate: what a policy, a committed result and an earlier report find, one thing broken at a time."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import onnxfuse
from onnxfuse.checking import check
from onnxfuse.cli.main import main
from onnxfuse.errors import InputError
from onnxfuse.gate import FAIL_ON, KINDS, Baseline, Policy
from tests.test_explain import layernorm
from tests.test_undo import damaged_rule, pairs


def saved(folder: Path, proto: onnx.ModelProto, name: str = "m.onnx") -> Path:
    path = folder / name
    onnx.save(proto, path)
    return path


def texts(path: Path, policy: Policy, **settings: Any) -> list[tuple[str, str]]:
    checked = check(path, policy=policy, validate=False, **settings)
    assert checked.passed == (not any(finding.fails for finding in checked.findings))
    return [(finding.kind, finding.text) for finding in checked.findings if finding.fails]


@pytest.mark.parametrize(
    ("policy", "text"),
    [
        (Policy(max_nodes=0), "the result has 1 node, 0 are allowed (max-nodes)"),
        (Policy(min_fused={"layernorm": 2}), "rule 'layernorm' was applied 1 time, 2 or more are asked for"),
        (Policy(require=("gelu-*",)), "rule 'gelu-*' was applied 0 times, 1 or more are asked for"),
        (Policy(forbid_ops=("LayerNormalization",)), "the result has 1 node of LayerNormalization, which is forbidden"),
    ],
)
def test_budgets(tmp_path: Path, policy: Policy, text: str) -> None:
    ((kind, found),) = texts(saved(tmp_path, layernorm()), policy)
    assert kind == "budget" and found.startswith(text)


def test_what_is_within_its_budget_passes(tmp_path: Path) -> None:
    policy = Policy(max_nodes=1, min_fused={"layernorm": 1}, require=("layer*",), forbid_ops=("Erf",))
    assert not texts(saved(tmp_path, layernorm()), policy)


def test_missed_is_what_the_rules_still_do(tmp_path: Path) -> None:
    path, policy = saved(tmp_path, layernorm()), Policy(fail_on=frozenset({"missed"}))
    ((kind, text),) = texts(path, policy)
    assert kind == "missed" and text.startswith("rule 'layernorm' applies 1 time")
    onnxfuse.optimize(path, output=tmp_path / "f.onnx")
    assert not texts(tmp_path / "f.onnx", policy)


def test_drift(tmp_path: Path) -> None:
    path, fused = saved(tmp_path, layernorm()), tmp_path / "f.onnx"
    onnxfuse.optimize(path, output=fused)
    assert not texts(path, Policy(expect=fused))
    ((kind, text),) = texts(path, Policy(expect=fused), ignore=["*norm*"])
    assert kind == "drift" and "(1 nodes there, 9 now)" in text
    ((kind, _),) = texts(path, Policy(expect=saved(tmp_path, layernorm(), "other.onnx")))
    assert kind == "drift"
    with pytest.raises(InputError):
        check(path, policy=Policy(expect=tmp_path / "none.onnx"), validate=False)


def test_undone_and_mismatch(tmp_path: Path) -> None:
    path = saved(tmp_path, pairs([3], chained=False))
    given: dict[str, Any] = {"rules": [damaged_rule(tmp_path)], "verify_rules": False, "select": ["conv-batchnorm"]}
    checked = check(path, **given)
    assert checked.passed and [(f.kind, f.fails) for f in checked.findings] == [("undone", False)]
    assert not check(path, policy=Policy(fail_on=frozenset({"undone"})), **given).passed
    checked = check(path, on_mismatch="fail", **given)
    assert not checked.passed and checked.findings[0].kind == "mismatch" and "differs by" in checked.findings[0].text


TABLES = "[tool.onnxfuse]\nvalidate = false\n[tool.onnxfuse.check]\nmax-nodes = 0\n"

# Ten ways in which an exporter changed, and what the regression must say.
CHANGES = [
    (layernorm("[-1]> (x)", "[0]> (x)"), "'axes' of ReduceMean"),
    (layernorm(two=np.asarray(3.0, np.float32)), "'two' of Pow 'Pow -> p' is 3"),
    (layernorm("Sub (x, m)", "Sub (m, x)"), "Sub 'Sub -> d' reads 'x'"),
    (layernorm("Div (d, r)", "Div (r, d)"), "Div 'Div -> n' reads 'r' from Sqrt"),
    (layernorm("[-1]> (p)", "[-1], keepdims: int = 0> (p)"), "'keepdims' of ReduceMean"),
    (layernorm("[2, 8] y) {", "[2, 8] y, float[2, 8] d) {"), "'d' is a graph output"),
    (layernorm("y = Add (k, b)", "h = Add (k, b) y = Mul (h, v)"), "'v' is also read by 'Mul -> y'"),
    (layernorm(eps=np.ones(8, np.float32)), "'eps' of Add 'Add -> e' is a constant of shape [8]"),
    (layernorm("v = ReduceMean", "v = ReduceMax"), "reads 'v' from ReduceMax"),
    (layernorm("e = Add (v, eps)", "a = Abs (v) e = Add (a, eps)"), "reads 'a' from Abs"),
]


@pytest.fixture
def baseline(tmp_path: Path) -> Path:
    path = tmp_path / "fused.json"
    path.write_text(onnxfuse.optimize(saved(tmp_path, layernorm()), opset="keep").report.to_json())
    return path


@pytest.mark.parametrize(("changed", "reason"), CHANGES, ids=[reason for _, reason in CHANGES])
def test_a_regression_says_what_is_lost_and_the_nearest_miss(
    tmp_path: Path, baseline: Path, changed: onnx.ModelProto, reason: str
) -> None:
    path = saved(tmp_path, changed)
    policy = Policy(baseline=Baseline.read(baseline, path))
    kinds = dict.fromkeys(kind for kind, _ in texts(path, policy, opset="keep"))
    (text, *_) = (text for _, text in texts(path, policy, opset="keep"))
    assert list(kinds) == ["regression"]
    assert text.startswith("LayerNormalization 1 -> 0; the nearest miss: rule 'layernorm' at 'Add -> "), text
    assert reason in text


def test_a_rule_that_is_not_used_is_named_as_that(tmp_path: Path, baseline: Path) -> None:
    path = saved(tmp_path, layernorm())
    policy = Policy(baseline=Baseline.read(baseline, path))
    assert "rule 'layernorm' is not used now" in texts(path, policy, ignore=["layernorm*"], opset="keep")[0][1]
    assert not texts(path, policy, opset="keep")


def test_an_operator_that_is_no_longer_folded_is_a_regression(tmp_path: Path) -> None:
    path = saved(tmp_path, pairs([], chained=True))
    report = tmp_path / "r.json"
    report.write_text(onnxfuse.optimize(path, select=["conv-batchnorm"]).report.to_json())
    changed = pairs([], chained=True)
    changed.graph.output.append(onnx.helper.make_tensor_value_info("t5", 1, [1, 4, 3, 3]))
    onnx.save(changed, path)
    found = texts(path, Policy(baseline=Baseline.read(report, path)), select=["conv-batchnorm"])
    assert found[0][1].startswith("BatchNormalization 0 -> 1; the nearest miss: rule 'conv-batchnorm' at ")
    assert "'t5' is a graph output" in found[0][1]


@pytest.mark.parametrize("text", ["", "[]", "{", '{"schema_version": 99}', '{"schema_version": 1, "fusions": []}'])
def test_a_baseline_that_is_no_report_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "r.json").write_text(text)
    with pytest.raises(InputError, match=r"no report|no JSON"):
        Baseline.read(tmp_path / "r.json", tmp_path / "m.onnx")


def test_the_command_and_its_configuration(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    saved(tmp_path, layernorm())
    assert main(["check", "m.onnx"]) == 0
    assert capsys.readouterr().out.startswith("+ m.onnx: passed, 1 fusion, 9 -> 1 nodes, validated on")
    assert main(["check", "m.onnx", "--no-validate", "--max-nodes", "0", "--exit-zero"]) == 0
    assert main(["check", "m.onnx", "--no-validate", "--max-nodes", "0", "-f", "json"]) == 1
    out = capsys.readouterr().out
    document = json.loads(out[out.index("{") :])
    assert not document["passed"] and document["models"][0]["findings"][0]["kind"] == "budget"
    (tmp_path / "onnxfuse.toml").write_text('validate = false\n[check]\nmax-nodes = 0\n[[model]]\npath = "m.onnx"\n')
    assert main(["check"]) == 1
    assert main(["check", "--isolated", "m.onnx", "--no-validate"]) == 0
    assert main(["check", "--max-nodes", "5"]) == 0  # the command line is stronger
    monkeypatch.setenv("ONNXFUSE_MAX_NODES", "5")
    assert main(["check"]) == 0  # and so is the environment
    (tmp_path / "onnxfuse.toml").unlink()
    (tmp_path / "pyproject.toml").write_text(TABLES)
    monkeypatch.delenv("ONNXFUSE_MAX_NODES")
    assert main(["check", "m.onnx"]) == 1


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("validate = false\nvaldate = true\n", "onnxfuse.toml:2: unknown key 'valdate', did you mean 'validate'?"),
        ("[check]\nmax-node = 3\n", "onnxfuse.toml:2: unknown key 'max-node', did you mean 'max-nodes'?"),
        ("check = 3\n", "onnxfuse.toml:1: 'check' must be a table"),
        ("[[model]]\nexpect = 'x'\n", "'model' must be an array of tables, each with a path"),
        ("[[model]]\npath = 'x'\nexpct = 'y'\n", "onnxfuse.toml:3: unknown key 'expct', did you mean 'expect'?"),
        ("seed = 'x'\n", "'x' is not a valid integer range"),
        ("= 3", "onnxfuse.toml: is not TOML"),
    ],
)
def test_a_wrong_configuration_is_2_with_its_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, text: str, message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    saved(tmp_path, layernorm())
    (tmp_path / "onnxfuse.toml").write_text(text)
    assert main(["check", "m.onnx"]) == 2
    err = capsys.readouterr().err
    assert message in err and err.count("\n") == 1


def test_wrong_use_is_2(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    saved(tmp_path, layernorm())
    for args in (["check"], ["check", "m.onnx", "--fail-on", "mised"], ["check", "m.onnx", "--min-fused", "x"],
                 ["check", "none.onnx"], ["check", "m.onnx", "--baseline", "none.json"],
                 ["check", "m.onnx", "--config", "none.toml"]):  # fmt: skip
        assert main(args) == 2, args
        assert capsys.readouterr().err.startswith("error: ")


def test_the_command_names_the_kinds_of_the_gate() -> None:
    from onnxfuse.cli import check as command

    assert tuple(KINDS) == command._KINDS and command._FAIL_ON == FAIL_ON
