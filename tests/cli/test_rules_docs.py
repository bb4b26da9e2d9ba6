"""`onnxfuse rules docs`, and that docs/rules/ is what it writes now. ONNXFUSE_BLESS=1 writes the folder anew."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from onnxfuse.cli.main import main
from onnxfuse.report.rules.mermaid import flowchart
from onnxfuse.report.rules.page import escape
from onnxfuse.rulebook.load import load_rulebook

_ROOT = Path(__file__).parents[2]
_DOCS = _ROOT / "docs" / "rules"


def test_committed_pages_are_current(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "pages"
    assert main(["rules", "docs", "--output", str(folder)]) == 0
    written = {path.name: path.read_text(encoding="utf-8") for path in folder.iterdir()}
    if os.environ.get("ONNXFUSE_BLESS"):
        _DOCS.mkdir(exist_ok=True)
        for path in _DOCS.glob("*.md"):
            path.unlink()
        for name, text in written.items():
            (_DOCS / name).write_text(text, encoding="utf-8", newline="\n")
    assert {path.name: path.read_text(encoding="utf-8") for path in _DOCS.iterdir()} == written


def test_links_lead_somewhere() -> None:
    for page in _DOCS.glob("*.md"):
        for link, _, anchor in re.findall(r"\]\(([^)#]+)(#(\w+))?\)", page.read_text(encoding="utf-8")):
            target = _DOCS / link
            assert target.exists(), link
            heads = {
                head.lower() for head in re.findall(r"^#+ (.+)$", target.read_text(encoding="utf-8"), re.MULTILINE)
            }
            assert not anchor or anchor in heads


def test_diagrams_have_a_node_for_each_operator_and_every_edge_has_ends() -> None:
    from onnxfuse.report.rules.diagram import diagram

    book = load_rulebook()
    texts = [(text, rule) for rule in book.rules for text in (*rule.matches, rule.rewrite)]
    for text, rule in texts:
        lines = flowchart(diagram(text, rule)).splitlines()
        assert lines[0] == "flowchart TD"
        nodes = {found[1] for line in lines if (found := re.match(r"    (\w+)[(\[{]", line))}
        edges = [found.groups() for line in lines if (found := re.match(r"    (\w+) --> (\w+)$", line))]
        assert {end for edge in edges for end in edge} == nodes
        assert sum(name.startswith("n") for name in nodes) == sum(node.op != "Constant" for node in text.nodes)


@pytest.mark.parametrize(
    "text", ["a | b", "<script>", "*bold* _it_ `code`", "[link](http://a)", "# head", "$x$", "a\n\nb"]
)
def test_text_of_strangers_stays_text(text: str) -> None:
    escaped = escape(text)
    assert "\n" not in escaped
    assert re.search(r"(?<!\\)[|<>*_`\[\]#$]", escaped) is None


def test_pages_of_my_rules(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "two-abs.toml").write_text(
        'summary = "Two | Abs <b>"\nopset = 18\ninputs.x = "T"\n'
        "[[match]]\ntext = '''(x) => (y) { t = Abs <s = \"a\\\"]--x`\"> (x)  y = Abs (t) }'''\n"
        "[rewrite]\ntext = '(x) => (y) { y = Abs (x) }'\n"
    )
    assert main(["rules", "docs", "--rules", str(tmp_path), "-o", str(tmp_path / "out")]) == 0
    page = (tmp_path / "out" / "two-abs.md").read_text()
    assert r"Two \| Abs \<b\>" in page
    assert page.count("```") == 4
    assert "two-abs.toml" in page
    assert "(two-abs.md)" in (tmp_path / "out" / "README.md").read_text()


def test_a_folder_that_cannot_be_is_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").write_text("")
    assert main(["rules", "docs", "-o", str(tmp_path / "file" / "x")]) == 2
    assert "cannot create the folder" in capsys.readouterr().err
