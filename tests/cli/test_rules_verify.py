"""`onnxfuse rules verify`: which rules it takes, what it says of them, its reports and exit codes."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from onnxfuse.cli.main import main
from onnxfuse.prove import FormProof, Problem, RuleProof, Verification

_WRONG = """summary = "Wrong."
opset = 18
[inputs]
x = "T"
[[match]]
text = '(x) => (y) { t = Neg (x)  y = Abs (t) }'
[rewrite]
text = '(x) => (y) { y = Neg (x) }'
[[sample]]
shapes = { x = [2, 3] }
"""


class FakeVerify:
    """Stands in for `onnxfuse.prove.verify`; keeps what it was asked."""

    def __init__(self) -> None:
        self.asked: dict[str, Any] = {}
        self.problems: tuple[Problem, ...] = ()

    def __call__(self, book: Any, **asked: Any) -> Verification:
        self.asked = asked
        asked.pop("progress")("verifying", 1, 1)
        paths = {rule.name: rule.path for rule in book.rules}
        rules = tuple(
            RuleProof(name, paths[name], 3, {"no kernel": 2}, 4, 5, {"float": 0.25}, self.problems, 0.5)
            for name in asked["names"]
        )
        return Verification(rules, (FormProof("Square", 2, 7),), asked["seed"], 1.25)


@pytest.fixture
def verify(monkeypatch: pytest.MonkeyPatch) -> FakeVerify:
    fake = FakeVerify()
    monkeypatch.setattr("onnxfuse.prove.verify", fake)
    return fake


def test_all_built_in_rules_by_default(verify: FakeVerify, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["rules", "verify"]) == 0
    names = {path.stem for path in (Path(__file__).parents[2] / "rules").rglob("*/*.toml")}
    assert set(verify.asked["names"]) == names
    out = capsys.readouterr().out.splitlines()
    assert len(out) == len(names) + 1
    row = next(line for line in out if line.startswith("+ dropout "))
    assert re.fullmatch(
        r"\+ dropout +3 cases, 2 not run, 4 fused, 5 refused, float off by 25 % of what is allowed", row
    )
    assert out[-1] == f"+ {len(names)} rules, 1 form: verified, {3 * len(names) + 7} cases in 1.2 s, seed 0"


def test_paths_and_select_choose(verify: FakeVerify, tmp_path: Path) -> None:
    for name in ("a-one", "a-two", "b-one"):
        (tmp_path / f"{name}.toml").write_text(_WRONG)
    assert main(["rules", "verify", str(tmp_path), "--select", "a-*", "-j", "3", "--seed", "9"]) == 0
    assert verify.asked == {"names": ["a-one", "a-two"], "jobs": 3, "seed": 9}
    assert main(["rules", "verify", str(tmp_path / "b-one.toml")]) == 0
    assert verify.asked["names"] == ["b-one"]


def test_problems_are_shown_and_1_is_returned(verify: FakeVerify, capsys: pytest.CaptureFixture[str]) -> None:
    verify.problems = tuple(Problem("result", f"case {n}", "they\n differ\x1b[1m") for n in range(5))
    assert main(["rules", "verify", "--select", "dropout"]) == 1
    out = capsys.readouterr().out.splitlines()
    assert out[0] == "! dropout  3 cases, 2 not run, 4 fused, 5 refused"
    assert out[1:4] == [rf"  ! result: case {n}: they differ\x1b[1m" for n in range(3)]
    assert out[4:] == ["  ! and 2 more (-v shows all)", "! 1 rule, 1 form: 1 wrong, 10 cases in 1.2 s, seed 0"]
    assert main(["rules", "verify", "--select", "dropout", "-v"]) == 1
    out = capsys.readouterr().out.splitlines()
    assert out[1] == "  - 2 not run: no kernel"
    assert sum("result: case" in line for line in out) == 5
    assert "+ form Square  2 spellings, 7 cases" in out
    assert main(["rules", "verify", "--select", "dropout", "-q"]) == 1
    assert capsys.readouterr().out.count("\n") == 1


def test_reports(verify: FakeVerify, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    verify.problems = (Problem("reject", "<1>", "a & b\x00"),)
    xml, data = tmp_path / "rules.xml", tmp_path / "rules.json"
    args = ["rules", "verify", "--select", "dropout", "--report", f"junit:{xml}", "--report", f"json:{data}"]
    assert main(args) == 1
    assert "1 wrong" in capsys.readouterr().out
    suite = ElementTree.parse(xml).getroot()
    assert (suite.tag, suite.get("tests"), suite.get("failures")) == ("testsuite", "2", "1")
    failure = suite.find("testcase[@name='dropout']/failure")
    assert failure is not None and failure.text == r"reject: <1>: a & b\x00"
    document = json.loads(data.read_text())
    assert (document["schema_version"], document["ok"], document["seed"]) == (1, False, 0)
    (rule,) = document["rules"]
    assert rule == {
        "rule": "dropout", "path": None, "run": 3, "not_run": {"no kernel": 2}, "fired": 4, "refused": 5,
        "worst": {"float": 0.25}, "lint": [], "problems": [{"kind": "reject", "case": "<1>", "message": "a & b\u0000"}],
    }  # fmt: skip


def test_what_lint_says_is_shown_and_fails_nothing(
    verify: FakeVerify, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path, data, xml = tmp_path / "wrong.toml", tmp_path / "rules.json", tmp_path / "rules.xml"
    path.write_text(_WRONG)
    assert main(["rules", "verify", str(path), "--report", f"json:{data}", "--report", f"junit:{xml}"]) == 0
    (line, *_) = [line for line in capsys.readouterr().out.splitlines() if "lint" in line]
    assert line == f"  - lint: {path}:9:3: there are fewer than two samples; add a [[sample]]"
    (rule,) = json.loads(data.read_text())["rules"]
    assert rule["lint"][0] == {
        "line": 9, "column": 3, "message": "there are fewer than two samples", "fix": "add a [[sample]]",
    }  # fmt: skip
    assert "lint: " in xml.read_text()


def test_a_report_on_stdout_takes_the_place_of_the_text(verify: FakeVerify, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["rules", "verify", "--select", "dropout", "--report", "json:-"]) == 0
    assert json.loads(capsys.readouterr().out)["ok"] is True


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["--select", "drpout"], "no rule is called 'drpout'; did you mean 'dropout'?"),
        (["nowhere"], "nowhere: there is no such rule file or folder"),
        (["."], ".: there is no rule file (*.toml) in this folder"),
        (["--report", "text:x"], "unknown report format 'text'"),
        (["--report", "json:no/such/folder/x"], "cannot write the report"),
        (["--jobs", "0"], "0 is not in the range x>=1"),
    ],
)
def test_wrong_use_is_2_before_any_work(
    verify: FakeVerify,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    args: list[str],
    message: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["rules", "verify", *args]) == 2
    assert message in capsys.readouterr().err
    assert verify.asked == {}


def test_a_report_never_overwrites_a_rule(
    verify: FakeVerify, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = tmp_path / "a.toml"
    path.write_text(_WRONG)
    assert main(["rules", "verify", str(path), "--report", f"json:{path}"]) == 2
    assert path.read_text() == _WRONG


def test_a_scaffold_verifies_and_a_wrong_rule_does_not(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """The real thing, in this process."""
    assert main(["rules", "new", "mine", "--dir", str(tmp_path)]) == 0
    capsys.readouterr()
    assert main(["rules", "verify", str(tmp_path), "-j", "1"]) == 0
    (tmp_path / "wrong.toml").write_text(_WRONG)
    assert main(["rules", "verify", str(tmp_path), "-j", "1"]) == 1
    out = capsys.readouterr().out
    assert re.search(r"^! wrong +1 case.*\n  ! result: ", out, re.MULTILINE)
    assert re.search(r"^\+ mine ", out, re.MULTILINE)
