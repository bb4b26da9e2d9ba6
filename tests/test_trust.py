"""A user's rules are proven before they are applied, once for each content, and not at all if the user says so."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import onnx
import pytest

import onnxfuse
from onnxfuse import prove, trust
from onnxfuse.cli.main import main
from onnxfuse.errors import RuleError, UsageError

from .helpers import model, ops, rule_file

_SAMPLES = "[[sample]]\nshapes = { x = [2, 3] }\n[[sample]]\nshapes = { x = [4] }\n"
_FORMS = "[[form.Twice]]\ntext = '(x) => (y) {{ t = {op} (x)  y = {op} (t) }}'\n"
_GRAPH = "g (float[2] x) => (float[2] y) { t = Neg (x)  u = Neg (t)  y = Relu (u) }"


class Counted:
    """`onnxfuse.prove.verify`, with the names that it was asked to verify."""

    def __init__(self, verify: Any) -> None:
        self._verify = verify
        self.asked: list[list[str]] = []

    def __call__(self, *args: Any, **options: Any) -> Any:
        self.asked.append(list(options["names"]))
        return self._verify(*args, **options)


@pytest.fixture(autouse=True)
def verify(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> Counted:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
    monkeypatch.setattr(trust, "_known", set())
    counted = Counted(prove.verify)
    monkeypatch.setattr(prove, "verify", counted)
    return counted


def rule(
    folder: Path, rewrite: str = "(x) => (y) { y = Relu (x) }", name: str = "mine", tables: str = _SAMPLES
) -> Path:
    match = "(x) => (y) { t = Neg (x)  u = Neg (t)  y = Relu (u) }"
    return _finished(rule_file(folder, match, rewrite, 'x = "T"', name=name, head="opset = 18"), tables)


def _finished(path: Path, tables: str) -> Path:
    path.write_text(path.read_text() + tables)
    return path


def wrong(folder: Path, name: str = "wrong") -> Path:
    return rule(folder, "(x) => (y) { y = Abs (x) }", name)


def optimized(*rules: Path, **options: Any) -> dict[str, int]:
    return ops(onnxfuse.optimize(model(_GRAPH), rules=rules, validate=False, **options).model)


def anew(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forget what this process knows, as a new one would."""
    monkeypatch.setattr(trust, "_known", set())


def test_a_rule_is_proven_once_and_again_after_a_change(
    tmp_path: Path, verify: Counted, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = rule(tmp_path)
    for _ in range(2):
        assert optimized(path) == {"Relu": 1}
        anew(monkeypatch)
    assert verify.asked == [["mine"]]
    path.write_text(path.read_text().replace("[4]", "[5]"))
    assert optimized(path) == {"Relu": 1}
    assert verify.asked == [["mine"], ["mine"]]
    monkeypatch.setattr(trust, "_provers", lambda: "of other versions")
    assert optimized(path) == {"Relu": 1}
    assert len(verify.asked) == 3


def test_a_change_of_a_form_is_a_change_of_the_rule(
    tmp_path: Path, verify: Counted, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "forms.toml").write_text(_FORMS.format(op="Neg"))
    match, rewrite = "(x) => (y) { u = form.Twice (x)  y = Relu (u) }", "(x) => (y) { y = Relu (x) }"
    _finished(rule_file(tmp_path, match, rewrite, 'x = "T"', name="mine", head="opset = 18"), _SAMPLES)
    for _ in range(2):
        assert optimized(tmp_path) == {"Relu": 1}
        anew(monkeypatch)
    assert len(verify.asked) == 1
    (tmp_path / "forms.toml").write_text(_FORMS.format(op="Abs"))
    with pytest.raises(RuleError, match="rule 'mine' is not proven"):
        optimized(tmp_path)


def test_a_wrong_rule_is_an_error_that_names_rule_file_and_case(tmp_path: Path) -> None:
    path = wrong(tmp_path)
    with pytest.raises(RuleError) as raised:
        optimized(path)
    message = str(raised.value)
    assert message.startswith(f"{path}: rule 'wrong' is not proven, so it is not applied: result: ")
    assert "opset 18, float, sample 1" in message
    assert optimized(path, verify_rules=False, select=["wrong"]) == {"Abs": 1}


def test_only_what_is_chosen_is_proven(tmp_path: Path, verify: Counted) -> None:
    assert optimized(rule(tmp_path), wrong(tmp_path), ignore=["wrong"]) == {"Relu": 1}
    assert verify.asked == [["mine"]]
    with pytest.raises(UsageError, match="no rule is called 'mien'"):
        optimized(tmp_path, select=["mien"])


def test_a_rule_without_samples_is_not_proven(tmp_path: Path) -> None:
    with pytest.raises(RuleError, match=r"add a \[\[sample\]\]"):
        optimized(rule(tmp_path, tables=""))


def test_built_in_rules_given_as_ones_own_are_trusted(verify: Counted) -> None:
    assert optimized(Path(__file__).parents[1] / "rules") == {"Relu": 1}
    assert verify.asked == []


def test_without_a_cache_a_rule_is_proven_once_a_process(
    tmp_path: Path, verify: Counted, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = rule(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(path))
    for _ in range(2):
        assert optimized(path) == {"Relu": 1}
    assert verify.asked == [["mine"]]


def test_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    onnx.save(model(_GRAPH), tmp_path / "net.onnx")
    path = wrong(tmp_path)
    args = ["optimize", str(tmp_path / "net.onnx"), "--rules", str(path), "--no-validate"]
    assert main(args) == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert err.startswith(f"error: {path}: rule 'wrong' is not proven")
    assert not (tmp_path / "net.opt.onnx").exists()
    assert main([*args, "--no-verify-rules"]) == 0
