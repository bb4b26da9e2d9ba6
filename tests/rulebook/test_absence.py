"""[absent]: what stands for an optional input that is not there, and what falls away with it."""

from __future__ import annotations

from pathlib import Path

import pytest

from onnxfuse.errors import RuleError
from onnxfuse.rulebook.absence import present_lines
from onnxfuse.rulebook.load import load_rulebook
from onnxfuse.rulebook.rule import Rule

from ..helpers import rule_file

SIGNATURE = "(x, w, b, c) => (y)"
INPUTS = 'x = "T"\nw = "const T"\nb = "const T?"\nc = "const T"'
MATCH = f"{SIGNATURE} {{ t = Conv (x, w, b)  y = Mul (t, c) }}"
REWRITE = f"{SIGNATURE} {{ v = Mul (w, c)  d = Mul (b, c)  y = Conv (x, v, d) }}"


def read(folder: Path, absent: str, rewrite: str = REWRITE) -> Rule:
    path = rule_file(folder, MATCH, rewrite, INPUTS, head=f"opset = 18\n[absent]\nb = '{absent}'\n")
    (rule,) = load_rulebook([path], builtin=False).rules
    return rule


def calls(rule: Rule, *present: str) -> list[tuple[str, tuple[str, ...]]]:
    return [(line.op, line.inputs) for line in present_lines(rule, present)]


def test_an_input_that_is_there_is_read(tmp_path: Path) -> None:
    rule = read(tmp_path, "Sub (c, c)")
    assert calls(rule, "x", "w", "b", "c") == [("Mul", ("w", "c")), ("Mul", ("b", "c")), ("Conv", ("x", "v", "d"))]


def test_an_operator_stands_for_an_absent_input(tmp_path: Path) -> None:
    assert calls(read(tmp_path, "Sub (c, c)"), "x", "w", "c")[0] == ("Sub", ("c", "c"))


def test_an_absent_input_stays_absent_with_what_is_computed_from_it(tmp_path: Path) -> None:
    assert calls(read(tmp_path, ""), "x", "w", "c") == [("Mul", ("w", "c")), ("Conv", ("x", "v", ""))]


def test_a_result_cannot_fall_away(tmp_path: Path) -> None:
    with pytest.raises(RuleError, match="nothing gives 'y' where the optional inputs are absent"):
        read(tmp_path, "", f"{SIGNATURE} {{ y = Mul (b, c) }}")
