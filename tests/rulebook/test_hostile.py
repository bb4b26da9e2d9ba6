"""Rule files from strangers: whatever they hold, reading ends soon, with a rulebook or with a RuleError."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from onnxfuse.errors import RuleError
from onnxfuse.match.pattern import compile_patterns
from onnxfuse.rulebook.load import load_rulebook
from onnxfuse.rulebook.syntax import limits

# Reading may take about a second; the rest is for slow machines.
_SECONDS = 5.0

_RULE = """summary = "Turn two Abs into one."
opset = 18
{head}
[inputs]
x = "T"
[[match]]
text = '''{match}'''
[rewrite]
text = '''{rewrite}'''
{tail}
"""
_MATCH = "(x) => (y) { t = Abs (x)  y = Abs (t) }"
_REWRITE = "(x) => (y) { y = Abs (x) }"


def _rule(head: str = "", match: str = _MATCH, rewrite: str = _REWRITE, tail: str = "") -> str:
    return _RULE.format(head=head, match=match, rewrite=rewrite, tail=tail)


def _chain(length: int, op: str = "Abs") -> str:
    lines = "  ".join(f"t{i + 1} = {op} (t{i})" for i in range(length))
    return f"(t0) => (t{length}) {{ {lines} }}"


def _forms(depth: int) -> str:
    """Each form calls the one before twice, in two spellings: 2 ** (2 ** depth) ways."""
    first = "[[form.F0]]\ntext = '(x) => (y) { y = Abs (x) }'\n"
    spelling = "[[form.F{n}]]\ntext = '(x) => (y) {{ t = form.F{m} (x)  y = form.F{m} (t) }}'\n"
    return first + "".join(spelling.format(n=n, m=n - 1) * 2 for n in range(1, depth + 1))


def _files() -> Iterator[tuple[str, str, str]]:
    """Yield (what it is, the file's name, its content)."""
    nested = "[" * 100_000
    yield "deep arrays", "a.toml", "x = " + nested
    yield "deep inline tables", "a.toml", "x = " + "{a = " * 50_000
    yield "a long dotted key", "a.toml", "a" + ".a" * 100_000 + " = 1"
    yield "a long dotted key, quoted", "a.toml", '"%"' + '."%"' * 60_000 + " = 1"
    yield "many long headers", "a.toml", "".join(f"[{'a.' * 15}b{i}]\n" for i in range(5000))
    yield "a huge integer", "a.toml", "opset = " + "9" * 200_000
    yield "a huge hexadecimal integer", "a.toml", _rule().replace("18", "0x" + "f" * 200_000, 1)
    yield "a huge string", "a.toml", 'summary = "' + "x" * 250_000 + '"'
    yield "a huge file", "a.toml", "#" * 10_000_000
    yield "a string that never ends", "a.toml", 'x = """' + '\\"""' * 50_000
    yield "quotes that never end", "a.toml", "x = " + "'''\\\"" * 50_000
    yield "many opsets", "a.toml", _rule(head=f"also = [{', '.join(['18'] * 60_000)}]")
    yield "many types", "a.toml", _rule(head="types = [" + '"float", ' * 20_000 + "]")
    yield "many type variables", "a.toml", _rule(head="".join(f"types.T{i} = ['float']\n" for i in range(5000)))
    yield "many inputs", "a.toml", _rule().replace('x = "T"', "".join(f'x{i} = "T"\n' for i in range(10_000)))
    yield "many texts", "a.toml", _rule(tail=f"[[match]]\ntext = '{_MATCH}'\n" * 3000)
    yield "many samples", "a.toml", _rule(tail="[[sample]]\nshapes = { x = [2] }\n" * 6000)
    yield "many lines", "a.toml", _rule(match="(x) => (y) {\n" + "y = Abs (x)\n" * 15_000 + "}")
    yield "many short lines", "a.toml", _rule(match="(x) => (y) {\n" + "\n" * 100_000 + "}")
    yield "a long chain", "a.toml", _rule(match=_chain(399))
    yield "deep brackets in a text", "a.toml", _rule(match="(x) => (y) { y = If <t = g () => (a) {" * 3000)
    yield "deep types in a reject", "a.toml", _rule(tail=f"[[reject]]\nwhy = 'w'\ntext = 'g ({'seq(' * 60_000}'")
    yield "brackets closed in a string", "a.toml", _rule(match='(x) => (y) { y = A <s = ")))", t = [' * 9000)
    yield "a huge number in a text", "a.toml", _rule(match=f"(x) => (y) {{ y = A <i = {'9' * 200_000}> (x) }}")
    yield (
        "a tensor without its elements",
        "a.toml",
        _rule(match="(x) => (y) { c = Constant <value = float[100000000000] {1}> ()  y = Add (x, c) }"),
    )
    yield "a sample of a terabyte", "a.toml", _rule(tail="[[sample]]\nshapes = { x = [1000000, 1000000] }")
    yield "a form that calls itself", "forms.toml", "[[form.F]]\ntext = '(x) => (y) { y = form.F (x) }'"
    yield "forms that multiply", "forms.toml", _forms(14)
    yield "forms in a deep line", "forms.toml", _forms(300)
    yield "a summary for terminals", "a.toml", _rule().replace("two", "\\u001b[31m")
    yield "a summary that turns the text around", "a.toml", _rule().replace("two", "\N{RIGHT-TO-LEFT OVERRIDE}")
    yield (
        "more cases than anybody waits for",
        "a.toml",
        _rule(head="also = [7, 8, 9, 11, 13]\n" + "".join(f'types.T{i} = ["float", "double"]\n' for i in range(12))),
    )
    yield "a null byte", "a.toml", _rule(head="# \0")
    yield "a name for terminals", "a\x1b[31m.toml", _rule()
    yield "a name with a space", "a b.toml", _rule()


@pytest.mark.parametrize(("name", "content"), [pytest.param(*case[1:], id=case[0]) for case in _files()])
def test_hostile_files_end_in_an_error_soon(tmp_path: Path, name: str, content: str) -> None:
    (tmp_path / name).write_text(content, encoding="utf-8")
    if name == "forms.toml":
        last = content.rsplit("[[form.", 1)[1].split("]", 1)[0]
        (tmp_path / "a.toml").write_text(_rule(match=f"(x) => (y) {{ y = form.{last} (x) }}"))
    began = time.perf_counter()
    with pytest.raises(RuleError) as raised:
        compile_patterns(load_rulebook([tmp_path], builtin=False))
    assert time.perf_counter() - began < _SECONDS
    assert len(str(raised.value)) < 1000


def test_the_file_that_the_hostile_ones_are_made_of_is_good(tmp_path: Path) -> None:
    (tmp_path / "a.toml").write_text(_rule())
    assert len(compile_patterns(load_rulebook([tmp_path], builtin=False))) == 1


def test_a_text_that_doubles_with_each_line_is_measured_in_no_time(tmp_path: Path) -> None:
    lines = "  ".join(f"t{i + 1} = Add (t{i}, t{i})" for i in range(80))
    (tmp_path / "a.toml").write_text(_rule(match=f"(x) => (y) {{ t0 = Abs (x)  {lines}  y = Abs (t80) }}"))
    began = time.perf_counter()
    (pattern,) = compile_patterns(load_rulebook([tmp_path], builtin=False))
    assert pattern.depth == 82
    assert time.perf_counter() - began < _SECONDS


def test_data_in_other_files_is_refused(tmp_path: Path) -> None:
    graph = 'g (float[2] x) => (float[2] y) <float[2] w = ["location": "/etc/passwd"]> { y = Add (x, w) }'
    (tmp_path / "a.toml").write_text(_rule(tail=f"[[reject]]\nwhy = 'w'\ntext = '{graph}'"))
    with pytest.raises(RuleError, match=r"a\.toml:12:\d+: a rule's graph cannot read its data from files"):
        load_rulebook([tmp_path], builtin=False)


def test_a_link_in_a_folder_leads_nowhere_else(tmp_path: Path) -> None:
    (tmp_path / "elsewhere.toml").write_text("secret = 1")
    folder = tmp_path / "rules"
    folder.mkdir()
    (folder / "a.toml").symlink_to(tmp_path / "elsewhere.toml")
    with pytest.raises(RuleError, match="there is no rule file"):
        load_rulebook([folder], builtin=False)
    (folder / "b.toml").write_text(_rule())
    assert [rule.name for rule in load_rulebook([folder], builtin=False).rules] == ["b"]


def test_links_that_lead_round_in_circles_are_not_followed(tmp_path: Path) -> None:
    folder = tmp_path / "rules"
    folder.mkdir()
    (folder / "b.toml").write_text(_rule())
    (folder / "again").symlink_to(folder)
    assert len(load_rulebook([folder], builtin=False).rules) == 1
    (folder / "c.toml").symlink_to(folder / "c.toml")
    with pytest.raises(RuleError, match=r"c\.toml: cannot be read as a rule file"):
        load_rulebook([folder], builtin=False)
    with pytest.raises(RuleError, match="there is no such rule file or folder"):
        load_rulebook([folder / "c.toml"], builtin=False)


@pytest.mark.skipif(not Path("/dev/zero").exists(), reason="no devices here")
def test_a_device_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "a.toml").symlink_to("/dev/zero")
    for path in (Path("/dev/zero"), tmp_path / "a.toml"):
        with pytest.raises(RuleError, match="no ordinary file"):
            load_rulebook([path], builtin=False)


def test_a_folder_of_everything_is_not_searched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("onnxfuse.rulebook.files.MAX_VISITED", 20)
    for number in range(21):
        (tmp_path / f"{number}.txt").touch()
    with pytest.raises(RuleError, match="more than 20 files lie in it"):
        load_rulebook([tmp_path], builtin=False)


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root reads everything")
def test_a_folder_that_cannot_be_read_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "locked").mkdir(mode=0)
    with pytest.raises(RuleError, match="locked: the folder cannot be read"):
        load_rulebook([tmp_path], builtin=False)


def test_thousands_of_files_are_limited(tmp_path: Path) -> None:
    for number in range(limits.MAX_FILES + 1):
        (tmp_path / f"a{number}.toml").touch()
    with pytest.raises(RuleError, match="more than 2,048 rule files"):
        load_rulebook([tmp_path], builtin=False)


def test_two_rules_of_one_name_in_a_folder_are_an_error(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "a.toml").write_text(_rule())
    with pytest.raises(RuleError, match=r"a\.toml has a rule of this name, too"):
        load_rulebook([tmp_path], builtin=False)
    assert len(load_rulebook([tmp_path / "one", tmp_path / "two"], builtin=False).rules) == 1


def test_forms_that_no_rule_calls_are_limited_too(tmp_path: Path) -> None:
    (tmp_path / "forms.toml").write_text(_forms(14))
    (tmp_path / "a.toml").write_text(_rule())
    with pytest.raises(RuleError, match="can be spelled in more than"):
        load_rulebook([tmp_path], builtin=False)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes here")
def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "a.toml")
    with pytest.raises(RuleError, match="no ordinary file"):
        load_rulebook([tmp_path / "a.toml"], builtin=False)


def test_files_together_are_limited(tmp_path: Path) -> None:
    for number in range(limits.MAX_TOTAL_BYTES // limits.MAX_FILE_BYTES + 1):
        (tmp_path / f"a{number}.toml").write_text("#" * limits.MAX_FILE_BYTES)
    with pytest.raises(RuleError, match="8 MB"):
        load_rulebook([tmp_path], builtin=False)


def test_the_longest_text_that_is_allowed_can_be_searched(tmp_path: Path) -> None:
    """The search goes one level deeper for each operator; see MAX_OPERATORS."""
    import onnx

    from onnxfuse import optimize

    length = limits.MAX_OPERATORS
    chain = _chain(length).replace("t0", "x").replace(f"t{length}", "y")
    (tmp_path / "a.toml").write_text(_rule(match=chain))
    graph = onnx.parser.parse_graph("g " + chain.replace("(x) => (y)", "(float[2] x) => (float[2] y)", 1))
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 18)], ir_version=8)
    result = optimize(model, rules=[tmp_path], verify_rules=False, select=["a"], validate=False)
    assert len(result.model.graph.node) == 1


def test_no_limit_is_near_the_shipped_rules() -> None:
    folder = Path(__file__).parents[2] / "rules"
    assert 10 * max(path.stat().st_size for path in folder.rglob("*.toml")) < limits.MAX_FILE_BYTES
    book = load_rulebook()
    assert 20 * sum(len(pattern.producers) for pattern in compile_patterns(book)) < limits.MAX_WRITTEN_OUT
    assert 4 * max(len(text.nodes) for rule in book.rules for text in rule.matches) < limits.MAX_LINES
