"""Lint: a clean rule, and the same with one thing wrong: exactly that is found, at its line, with a way to mend it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from onnxfuse.rulebook.checks.finding import Finding
from onnxfuse.rulebook.checks.lint import lint
from onnxfuse.rulebook.load import load_rulebook

_CLEAN = """\
summary = "Turn an Elu of a Neg of a Neg into one Elu."
opset   = 18
also    = [13]
types   = ["float", "double"]
keep    = { norm = "LpNormalization" }

[inputs]
x = "T"
c = "T"

[attributes]
alpha = { type = "float", default = 1.0 }

[[match]]
text = '''
(x, c) => (y)
{
    k = Constant <value_float: float = 0.5> ()
    n = Neg (x)
    m = Neg (n)
    e = Elu <alpha: float = @alpha> (m)
    s = Mul (e, k)
    [norm] p = LpNormalization (s)
    y = Add (p, c)
}
'''

[rewrite]
text = '''
(x, c) => (y)
{
    k = Constant <value_float: float = 0.5> ()
    e = Elu <alpha: float = @alpha> (x)
    s = Mul (e, k)
    [norm] p = LpNormalization (s)
    y = Add (p, c)
}
'''

[[sample]]
shapes     = { x = [2, 3], c = [2, 3] }
attributes = { alpha = 2.0, norm.p = 1 }
[[sample]]
shapes = { x = [4], c = [4] }

[[reject]]
why  = "c is no part of it"
text = "g (float[2] x) => (float[2] y) { y = Neg (x) }"
"""

# What is written, what is written in its place, the text at which the finding is placed, and what it says.
_DAMAGE = [
    ("one Elu.", "one Elu", "summary", "the summary is not one sentence"),
    ("e = Elu <", "e = Elo <", "text = '''", "there is no operator Elo at opset 18"),
    ("LpNormalization (s)\n    y", "LpNormalization <pp: int = 1> (s)\n    y", "text", "no attribute 'pp' at opset 18"),
    ("Neg (x)\n", "Dropout <seed: float = 1.0> (x)\n", "text = '''", "'seed' of Dropout is of type int"),
    ("Neg (x)\n", "Neg (x, c)\n", "text = '''", "Neg takes 1 inputs, not 2"),
    ("Neg (x)\n", "RandomUniformLike (x)\n", "text = '''", "RandomUniformLike gives another value each time"),
    ("    m = Neg (n)", "    [norm] m = Neg (n)", "text = '''", "two lines are labelled 'norm'"),
    ("m = Neg (n)", "m = Mish (n)", "also", "no match text has all its operators and attributes at opset 13"),
    ("m = Neg (n)", "m = ReduceMax <noop_with_empty_axes: int = 1> (n)", "also",
     "no match text has all its operators and attributes at opset 13"),
    ("also    = [13]", "also    = [13, 99]", "also", "onnx knows no opset 99"),
    ("    y = Add (p, c)\n}\n'''\n\n[rewrite]", "    y = Add (p, p)\n}\n'''\n\n[rewrite]", "text = '''",
     "text 'match' does not read its input 'c'"),
    ("    n = Neg (x)\n", "    n = Neg (x)\n    d = Exp (c)\n", "text = '''", "nobody reads 'd', which Exp gives"),
    ("    e = Elu <alpha: float = @alpha> (x)", "    d = Exp (x)\n    e = Elu <alpha: float = @alpha> (x)", "text",
     "text 'rewrite': nobody reads 'd'"),
    ("<alpha: float = @alpha> (x)", "<alpha: float = @beta> (x)", "text", "'@beta' is not declared"),
    ("e = Elu <alpha: float = @alpha> (m)", "e = Elu (m)", "text = '''\n(x, c) => (y)\n{\n    k = Constant",
     "no match text binds '@alpha', which the rewrite uses"),
    ('alpha = { type = "float", default = 1.0 }', 'alpha = { type = "floats", default = [1.0] }', "text",
     "'@alpha' is declared as floats, 'alpha' of Elu is of type float"),
    ("alpha = 2.0, ", "", "alpha = {", "no sample gives 'alpha' another value than its default"),
    ("float = 0.5> ()\n    n", "float = 0.1> ()\n    n", "text = '''", "'k' is 0.10000000149011612 here, not 0.1"),
    ("[[sample]]\nshapes = { x = [4], c = [4] }\n", "", "sample", "there are fewer than two samples"),
    ("x = [4], c = [4]", "x = [4, 5], c = [4, 5]", "[[sample]]\nshapes = {", "all samples have the same ranks"),
    (", norm.p = 1", "", "keep", "no sample gives attributes to the node kept as 'norm'"),
    ("    y = Add (p, c)\n}\n'''\n\n[[sample]]",
     "    a = Abs (p)  b = Abs (a)  d = Abs (b)\n    y = Add (d, c)\n}\n'''\n\n[[sample]]",
     "rewrite]", "text 'match' can stand for 6 nodes, the rewrite has 7"),
]  # fmt: skip


def findings(folder: Path, text: str, name: str = "elu-neg") -> list[Finding]:
    (folder / "activation").mkdir(exist_ok=True)
    path = folder / "activation" / f"{name}.toml"
    path.write_text(text)
    return list(lint(load_rulebook([path], builtin=False)))


def test_the_clean_rule_is_clean(tmp_path: Path) -> None:
    assert findings(tmp_path, _CLEAN) == []


@pytest.mark.parametrize(("written", "instead", "place", "message"), _DAMAGE, ids=[damage[3] for damage in _DAMAGE])
def test_one_thing_wrong_is_found_and_nothing_else(
    tmp_path: Path, written: str, instead: str, place: str, message: str
) -> None:
    assert written in _CLEAN
    text = _CLEAN.replace(written, instead, 1)
    found = findings(tmp_path, text)
    assert len({finding.message for finding in found}) == 1, found
    assert message in found[0].message
    lines = text.split("\n")
    here = "\n".join(lines[found[0].line - 1 :])[found[0].column - 1 :]
    assert here.startswith(place) or place in here.split("\n\n")[0]
    assert re.fullmatch(r".*elu-neg\.toml:\d+:\d+: .+; .+", str(found[0]))


def test_a_missing_reject_is_found_and_one_there_twice(tmp_path: Path) -> None:
    reject = _CLEAN[_CLEAN.index("[[reject]]") :]
    assert [f.message for f in findings(tmp_path, _CLEAN.replace(reject, ""))] == ["there is no [[reject]]"]
    assert [f.message for f in findings(tmp_path, _CLEAN + reject)] == ["two rejects say 'c is no part of it'"]


def test_names_are_in_kebab_case(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert [f.message for f in findings(tmp_path, _CLEAN, "Elu_Neg")] == [
        "the file name 'Elu_Neg' is not in kebab case"
    ]
    path = tmp_path / "my rules" / "elu-neg.toml"
    path.parent.mkdir()
    path.write_text(_CLEAN)
    assert not lint(load_rulebook([path], builtin=False))  # whoever it belongs to may call it so
    monkeypatch.setattr("onnxfuse.rulebook.checks.lint.builtin_rules_dir", lambda: tmp_path)
    found = lint(load_rulebook([path], builtin=False))
    assert [f.message for f in found] == ["its folder 'my rules' is no family of operators"]


_TWO = """\
summary = "Turn an operator of another into one."
opset   = {opset}
types   = [{types}]
order   = {order}
[inputs]
x = "{guard}"
[[match]]
text = '(x) => (y) {{ t = Abs (x)  y = Relu (t) }}'
{more}
[rewrite]
text = '(x) => (y) {{ {rewrite} }}'
[[sample]]
shapes = {{ x = [2, 3] }}
[[sample]]
shapes = {{ x = [4, 5] }}
[[reject]]
why  = "no Relu"
text = "g (float[2] x) => (float[2] y) {{ y = Neg (x) }}"
"""
_ONE = {"opset": "18", "types": '"float"', "order": "50", "guard": "T[M, N]", "more": "", "rewrite": "y = Abs (x)"}


def pair(folder: Path, first: dict[str, str], second: dict[str, str]) -> list[str]:
    """Return what is found in two rules of which the first is tried first."""
    (folder / "activation").mkdir(exist_ok=True)
    for name, changed in (("first", {"order": "10", **first}), ("second", second)):
        (folder / "activation" / f"{name}.toml").write_text(_TWO.format(**{**_ONE, **changed}))
    return [f"{f.rule}: {f.message}" for f in lint(load_rulebook([folder], builtin=False))]


_SHADOWED = ["second: rule 'first', which comes first, matches all of it"]


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        ({}, {}, _SHADOWED),
        ({"types": '"float", "double"'}, {}, _SHADOWED),
        ({"guard": "T", "more": ""}, {}, _SHADOWED),
        ({}, {"guard": "const T[M, N]"}, _SHADOWED),
        ({"types": '"double"'}, {}, []),
        ({"guard": "T[M, 4]"}, {}, []),
        ({"guard": "const T[M, N]"}, {}, []),
        ({"opset": "17"}, {}, []),
    ],
)
def test_a_rule_that_never_has_its_turn(
    tmp_path: Path, first: dict[str, str], second: dict[str, str], expected: list[str]
) -> None:
    found = pair(tmp_path, first, second)
    assert [text for text in found if "which comes first" in text] == expected


def test_a_match_text_that_is_there_twice_and_a_rewrite_that_is_one(tmp_path: Path) -> None:
    again = "[[match]]\ntext = '(x) => (y) { u = Abs (x)  y = Relu (u) }'"
    (tmp_path / "activation").mkdir()
    path = tmp_path / "activation" / "first.toml"
    path.write_text(_TWO.format(**{**_ONE, "more": again}))
    (found,) = lint(load_rulebook([path], builtin=False))
    assert found.message == "an earlier [[match]] of this rule is the same"
    path.write_text(_TWO.format(**{**_ONE, "rewrite": "u = Abs (x)  y = Relu (u)"}))
    (found,) = lint(load_rulebook([path], builtin=False))
    assert found.message == "the rewrite is the same as a match text, so the rule never ends"
