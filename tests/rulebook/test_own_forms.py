"""A user's forms.toml: for the user's rules, and for no others."""

from __future__ import annotations

from pathlib import Path

from onnxfuse.match.pattern import compile_patterns
from onnxfuse.rulebook.load import load_rulebook
from onnxfuse.rulebook.rule import Rulebook

from ..helpers import fused, model, ops, rule_file

# The built-in Square is x * x or x to the power of 2.
_OTHER_SQUARE = "[[form.Square]]\ntext = '(x) => (y) { t = Abs (x)  y = Relu (t) }'\n"


def _looked_for(book: Rulebook) -> list[dict[str, list[tuple[str, str]]]]:
    """Return the operators that can give each name of each pattern."""
    patterns = compile_patterns(book)
    return [{name: [line.op for line in lines] for name, lines in p.producers.items()} for p in patterns]


def test_built_in_rules_match_what_they_matched(tmp_path: Path) -> None:
    (tmp_path / "forms.toml").write_text(_OTHER_SQUARE)
    assert _looked_for(load_rulebook([tmp_path])) == _looked_for(load_rulebook())


def test_the_users_rules_call_the_users_form(tmp_path: Path) -> None:
    (tmp_path / "forms.toml").write_text(_OTHER_SQUARE)
    rule_file(tmp_path, "(x) => (y) { y = form.Square (x) }", "(x) => (y) { y = Abs (x) }", 'x = "T"', name="mine")
    path = tmp_path / "mine.toml"
    path.write_text("opset = 18\n" + path.read_text())
    proto = model("g (float[2] x) => (float[2] y) { a = Abs (x)  b = Relu (a)  y = Neg (b) }")
    assert ops(fused(proto, rules=[tmp_path], select=["mine"]).model) == {"Abs": 1, "Neg": 1}
    squared = model("g (float[2] x) => (float[2] y) { a = Mul (x, x)  y = Neg (a) }")
    assert ops(fused(squared, rules=[tmp_path], select=["mine"]).model) == {"Mul": 1, "Neg": 1}


def test_forms_without_a_namesake_are_found_in_the_built_in_ones(tmp_path: Path) -> None:
    rule_file(tmp_path, "(x) => (y) { y = form.Square (x) }", "(x) => (y) { y = Mul (x, x) }", 'x = "T"', name="mine")
    path = tmp_path / "mine.toml"
    path.write_text("opset = 18\n" + path.read_text())
    assert "Square" in load_rulebook([path]).forms


def test_the_built_in_folder_may_be_given_as_ones_own() -> None:
    folder = Path(__file__).parents[2] / "rules"
    assert not any("own" in form for form in load_rulebook([folder]).forms)
