"""ONNX text: what onnx.parser lets pass in silence is refused, and errors stand where the slip is."""

from __future__ import annotations

import re
from pathlib import Path

import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onnxfuse.errors import RuleError
from onnxfuse.match.pattern import compile_patterns
from onnxfuse.rulebook.load import load_rulebook
from onnxfuse.rulebook.rule import Bound
from onnxfuse.rulebook.syntax.text import TextError, check_graph, parse_node, parse_text

from ..helpers import rule_file

GOOD = "(x) => (y) {\n    # a comment\n    [label] y = Elu <alpha: float = @a> (x)\n}"


def test_a_good_text() -> None:
    text = parse_text(GOOD, "match", 18)
    (node,) = text.nodes
    assert (text.inputs, text.outputs) == (("x",), ("y",))
    assert (node.op, node.label, node.inputs, node.outputs) == ("Elu", "label", ("x",), ("y",))
    assert node.attributes == {"alpha": Bound("a")}


@pytest.mark.parametrize(
    "text, reason, marker",
    [
        ("(x) => (y) { y = Sum <k = [^@a, 2]> (x) }", "cannot stand inside a list", "^"),
        ("(x) => (y) { y = Sum <k = [2, ^@a]> (x) }", "cannot stand inside a list", "^"),
        ("(x) => (y) { y = Sum <k = [2,\n ^@a]> (x) }", "cannot stand inside a list", "^"),
        ("(x) => (y) { y = Abs (x) }\n  ^z = 3", "after the closing brace", "^"),
        ("(x) => (y) { y = Abs (x) } ^f (x) => (z) { z = Abs (x) }", "after the closing brace", "^"),
        ("(x) => (y) { y = Abs (x) } ^}", "after the closing brace", "^"),
        ("(float[2] ^x) => (y) { y = Abs (x) }", "the type of 'x' says nothing here", "^"),
        ("(x) => (y) <float[2] ^t> { t = Abs (x)  y = Abs (t) }", "the type of 't' says nothing here", "^"),
        ("<^b: float = 0.5> (x) => (y) { y = Elu <alpha: float = @b> (x) }", "declares no attribute such as 'b'", "^"),
        ("<^b> (x) => (y) { y = Elu <alpha: float = @b> (x) }", "declares no attribute such as 'b'", "^"),
        ("(x) => (y) { y = Sum <^k = 1, k = 2> (x) }", "Sum is given 'k' twice", "^"),
        ("(x) => (y) { y = Elu <alpha: float = ^.5> (x) }", "a number begins with a digit: 0.5", "^"),
    ],
)
def test_what_the_parser_would_change_or_drop(text: str, reason: str, marker: str) -> None:
    before = text[: text.index(marker)]
    text = text.replace(marker, "")
    with pytest.raises(TextError, match=reason) as caught:
        parse_text(text, "match", 18)
    line, column = before.count("\n") + 1, len(before) - (before.rfind("\n") + 1) + 1
    assert (caught.value.line, caught.value.column) == (line, column)


@pytest.mark.parametrize(
    "text, reason, marker",
    [
        ("g (float x) => (float y) { y = Abs (x) } ^more", "after the closing brace", "^"),
        ("g (float[3] x) => (float[3] y) <float[3] ^w = {1, 2}> { y = Add (x, w) }", "not as many numbers", "^"),
    ],
)
def test_what_the_parser_would_drop_of_a_graph(text: str, reason: str, marker: str) -> None:
    column = text.index(marker) + 1
    with pytest.raises(TextError, match=reason) as caught:
        check_graph(text.replace(marker, ""))
    assert caught.value.column == column


def test_weights_in_front_of_the_body_are_no_trap() -> None:
    check_graph("g (float[2] x) => (float[2] y) <float[2] w = {1, 2}, float[1] v = {3}> { y = Sum (x, w, v) }")


def test_the_traps_are_real() -> None:
    """If onnx learns to refuse these, the checks of our own can go."""
    parsed = onnx.parser.parse_function("f (x) => (y) { y = Sum <k = [@a, 2]> (x) } more")
    assert list(parsed.node[0].attribute[0].ints) == [2]


@pytest.mark.parametrize(
    "text", ['(x) => (y) { y = Abs <s: string = "[@a}"> (x) }', "(x) => (y) { # } [@a\n y = Abs (x) }"]
)
def test_strings_and_comments_are_no_traps(text: str) -> None:
    assert parse_text(text, "match", 18).nodes[0].op == "Abs"


def test_a_text_inside_a_file_is_told_by_its_place_there(tmp_path: Path) -> None:
    path = rule_file(
        tmp_path, "(x) => (y)\n{\n    y = Abs ((x)\n}", "(x) => (y) { y = Neg (x) }", 'x = "T"', head="opset = 18"
    )
    with pytest.raises(RuleError) as caught:
        load_rulebook([path], builtin=False)
    found = re.match(rf"{re.escape(str(path))}:(\d+):(\d+): ", str(caught.value))
    assert found
    line = path.read_text().splitlines()[int(found[1]) - 1]
    assert "Abs ((x)" in line
    assert 1 < int(found[2]) <= len(line) + 1


@pytest.mark.parametrize("number", [1, 2])
def test_the_second_of_two_texts_is_told_from_the_first(tmp_path: Path, number: int) -> None:
    """Both [[match]] tables begin alike; only one of them is broken."""
    texts = ["(x) => (y) {\n y = Abs (x)\n}"] * 2
    texts[number - 1] = "(x) => (y) {\n y = Abs (x\n}"
    body = "".join(f"[[match]]\ntext = '''\n{text}\n'''\n" for text in texts)
    path = tmp_path / "two.toml"
    path.write_text(
        f'summary = "s"\nopset = 18\n[inputs]\nx = "T"\n{body}[rewrite]\ntext = "(x) => (y) {{ y = Neg (x) }}"\n'
    )
    with pytest.raises(RuleError) as caught:
        load_rulebook([path], builtin=False)
    line = int(str(caught.value).removeprefix(f"{path}:").split(":")[0])
    first = 6 + (number - 1) * 6
    assert first < line <= first + 3


@pytest.mark.parametrize("text", ["Sub (mean, mean)", "y =", "", "y = Sub (a", "y = Sub (a) }"])
def test_single_nodes(text: str) -> None:
    if text == "Sub (mean, mean)":
        assert parse_node("b = " + text).inputs == ("mean", "mean")
    else:
        with pytest.raises(TextError):
            parse_node(text)


@settings(max_examples=150, deadline=None)
@given(st.text(max_size=80) | st.text("(){}<>[]=,@:xyAbs \n\"#'1.", max_size=60))
def test_any_text_is_read_or_refused(text: str) -> None:
    for read in (lambda: parse_text(text, "match", 18), lambda: parse_node(text)):
        try:
            read()
        except TextError as error:
            assert error.line >= 1 and error.column >= 1 and error.reason


@settings(max_examples=100, deadline=None)
@given(st.integers(0, len(GOOD)), st.integers(0, 12), st.text('(){}<>[]=,@:xy \n"#1.', max_size=6))
def test_a_good_text_with_a_slip_is_read_or_refused(at: int, cut: int, put: str) -> None:
    try:
        parse_text(GOOD[:at] + put + GOOD[at + cut :], "match", 18)
    except TextError as error:
        assert error.reason


def test_what_compiles_only_with_others_is_refused_too(tmp_path: Path) -> None:
    for match, reason in (
        ("(x) => (y) { t = form.Nowhere (x)  y = Abs (t) }", "form 'Nowhere'|unknown form"),
        ("(x) => (y) { y = Abs (z) }", "'z'"),
        ("(x) => (z) { y = Abs (x) }", "output 'z'|gives z"),
    ):
        path = rule_file(tmp_path, match, "(x) => (y) { y = Neg (x) }", 'x = "T"', head="opset = 18")
        with pytest.raises(RuleError, match=reason):
            compile_patterns(load_rulebook([path], builtin=False))
