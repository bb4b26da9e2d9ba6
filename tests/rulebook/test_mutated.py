"""Damaged rule files: reading ends with a rulebook or with a RuleError that names a place, never otherwise."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from onnxfuse.errors import RuleError
from onnxfuse.match.pattern import compile_patterns
from onnxfuse.rulebook.load import load_rulebook
from onnxfuse.rulebook.syntax.keys import FORMS, RULE

_RULES = Path(__file__).parents[2] / "rules"
_FORMS = _RULES / "forms.toml"
_FILES = sorted(_RULES.rglob("*.toml"))

_PIECES = st.sampled_from([
    '"', "'", "'''", "[", "]", "[[", "{", "}", "=", ",", "<", ">", "(", ")", "@a", "?", "->", "...", "_", "#", "\n",
    "\t", "1", "-5", "1e400", "99999999999999999999", "nan", "true", "1979-05-27", '"x"', "[]", "{}", "{a = {}}",
    "[[1]]",
    "form.Square", "const", "Constant", "é", "\x00", "\u202e",
])  # fmt: skip
_CUT = st.tuples(st.floats(0, 1), st.integers(0, 40), _PIECES | st.just("") | st.text(max_size=3))
_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


def _read(folder: Path, name: str, text: str) -> None:
    """Read a file with the shipped forms; whatever is wrong must be said with a place in a file."""
    path = folder / name
    path.write_text(text, encoding="utf-8", newline="")
    try:
        compile_patterns(load_rulebook([path] if path.name == "forms.toml" else [_FORMS, path], builtin=False))
    except RuleError as error:
        message = str(error)
        assert len(message) < 1000
        assert name in message or "form '" in message


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(file=st.sampled_from(_FILES), cuts=st.lists(_CUT, min_size=1, max_size=4))
def test_cut_and_pasted_files(tmp_path: Path, file: Path, cuts: list[tuple[float, int, str]]) -> None:
    text = file.read_text(encoding="utf-8")
    for at, length, piece in cuts:
        start = int(at * len(text))
        text = text[:start] + piece.encode("utf-8", "replace").decode() + text[start + length :]
    _read(tmp_path, file.name, text)


@settings(max_examples=200, deadline=None)
@given(key=st.sampled_from(sorted(RULE.keys)), value=_VALUES)
@example(key="sample", value=[{"shapes": {"x": [True]}}])
@example(key="format", value=10**5000)
def test_any_value_of_any_key_is_judged(key: str, value: Any) -> None:
    data = tomllib.loads((_RULES / "conv" / "conv-batchnorm.toml").read_text())
    for problem in RULE.problems({**data, key: value}, ()):
        assert problem.where[:1] == (key,)
        assert 0 < len(problem.message) < 500


@settings(max_examples=100, deadline=None)
@given(value=_VALUES)
def test_any_value_of_form_is_judged(value: Any) -> None:
    for problem in FORMS.problems({"form": value}, ()):
        assert 0 < len(problem.message) < 500


_SMALL = """summary = "s"
opset = 18
[inputs]
x = "T"
[[match]]
text = '''{match}'''
[rewrite]
text = '''{rewrite}'''
"""

_TEXTS = [
    ("(x) => (y) { y = Abs (z) }", "'z' is neither an input nor given by a line before"),
    ("(x) => (y) { y = Abs (t)  t = Neg (x) }", "'t' is neither an input nor given by a line before"),
    ("(x) => (y) { x = Abs (x)  y = Abs (x) }", "'x' is given twice"),
    ("(x) => (y) { y, y = Split (x) }", "'y' is given twice"),
    ("(x) => (y) { t = Abs (x) }", "no line gives the output 'y'"),
    ("(x, x) => (y) { y = Abs (x) }", "the input 'x' is there twice"),
    ("(x) => () { y = Abs (x) }", "it gives , the rewrite y"),
    ("(z) => (y) { y = Abs (z) }", r"it has the inputs z, but \[inputs\] has x"),
    ("(x) => (y) { c = Constant () y = Add (x, c) }", "a Constant has no inputs, one output and one of value"),
    ('(x) => (y) { c = Constant <value_string = "a"> () y = Add (x, c) }', "a Constant has no inputs, one output"),
    ("(x) => (y) { c = Constant <value_int: float = 1.5> () y = Add (x, c) }", "a value_int is a whole number"),
    ("(x) => (y) { c = Constant <value = float[2] {1}> () y = Add (x, c) }", "as many of them as its dims say"),
    ('(x) => (y) { c = Constant <value = string[1] {"a"}> () y = Add (x, c) }', "a tensor of numbers"),
    ("(x) => (y) { y = If <t = g () => (a) { a = Abs (x) }> (x) }", "'t' of If holds a graph"),
    ("(x) => (y) { y = form.Sqare (x) }", "calls the unknown form 'Sqare'; did you mean 'Square'?"),
    ("(x) => (y) { y = form.Square (x, x) }", "calls form 'Square' with 2 inputs, 1 outputs and 0 attributes"),
    ("(x) => (y) { y = Abs <i = 99999999999999999999> (x) }", "a number is out of range"),
]


@pytest.mark.parametrize(("text", "message"), _TEXTS)
def test_texts_that_cannot_be_right(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "a.toml").write_text(_SMALL.format(match=text, rewrite="(x) => (y) { y = Abs (x) }"))
    with pytest.raises(RuleError, match=message):
        compile_patterns(load_rulebook([_FORMS, tmp_path], builtin=False))


def test_a_rewrite_calls_no_form(tmp_path: Path) -> None:
    text = "(x) => (y) { y = form.Square (x) }"
    (tmp_path / "a.toml").write_text(_SMALL.format(match="(x) => (y) { y = Abs (x) }", rewrite=text))
    with pytest.raises(RuleError, match=r"a\.toml:7:2: text 'rewrite': a rewrite cannot call a form"):
        load_rulebook([_FORMS, tmp_path], builtin=False)


_TABLES = [
    ("draw.z = [0, 1]", 9, "'z' in [draw] is no input"),
    ("attributes.e.type = 'float'", 9, "no text binds '@e'"),
    ("constants.c.rtol = 0.1", 9, "no line gives 'c'"),
    ("derive.a = 'b'", 9, "'b' is no value that the rewrite computes from constants"),
    ("absent.x = 'Abs (x)'", 9, "'x' in [absent] is no optional input"),
    ("[[sample]]\nshapes = { y = [2] }", 10, "'y' in shapes is no input and no dim"),
    ("[[sample]]\nabsent = ['x']", 10, "'x' in absent is no optional input"),
    ("[[reject]]\nwhy = 'w'\ntext = 'g (float[2] x) => (float[2] y) { y = Abs (x }'", 11, "Expected character"),
]


@pytest.mark.parametrize(("tail", "line", "message"), _TABLES)
def test_tables_that_mean_nothing(tmp_path: Path, tail: str, line: int, message: str) -> None:
    text = "(x) => (y) { y = Abs (x) }"
    body = _SMALL.format(match=text, rewrite=text)
    if not tail.startswith("[["):
        head, _, rest = body.partition("[inputs]")
        body, line = f"{head}{tail}\n[inputs]{rest}", 3
    else:
        body += tail + "\n"
    (tmp_path / "a.toml").write_text(body)
    with pytest.raises(RuleError) as raised:
        load_rulebook([tmp_path], builtin=False)
    assert message in str(raised.value)
    assert re.search(rf"a\.toml:{line}:\d+: ", str(raised.value))
