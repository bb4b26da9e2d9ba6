"""Built-in rules that cannot match are not read: their operators are told from the text alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from onnxfuse.rulebook.library import builtin_rules_dir
from onnxfuse.rulebook.load import FORMS_FILE, load_rulebook
from onnxfuse.rulebook.relevance import Operators, operators, relevant

BOOK = load_rulebook()
FILES = sorted(file for file in builtin_rules_dir().rglob("*.toml") if file.name != FORMS_FILE)


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_operators_are_those_of_the_parsed_texts(file: Path) -> None:
    rule = next(rule for rule in BOOK.rules if rule.name == file.stem)
    found = operators(file.read_text(encoding="utf-8"))
    for text, ops in zip(rule.matches, found.matches, strict=True):
        assert ops == {node.op for node in text.nodes if not node.domain} - {"Constant"}
    emitted = {node.op for node in (*rule.rewrite.nodes, *rule.absent.values()) if node and not node.domain}
    assert emitted - {"Constant"} <= found.rewrite


def test_a_rule_counts_when_one_of_its_texts_can_match() -> None:
    files = {
        "both": Operators((frozenset({"A", "B"}), frozenset({"C"})), frozenset({"D"})),
        "after": Operators((frozenset({"D"}),), frozenset()),
        "never": Operators((frozenset({"E"}),), frozenset({"A"})),
    }
    assert relevant(files, {"C"}) == {"both", "after"}  # `after` matches what `both` emits
    assert relevant(files, {"A", "B", "E"}) == {"both", "after", "never"}
    assert relevant(files, {"A"}) == frozenset()


def test_rules_that_are_not_read_are_known_by_name() -> None:
    book = load_rulebook(present={"Conv", "BatchNormalization"})
    names = {rule.name for rule in book.rules}
    assert "conv-batchnorm" in names and "gelu-erf" in book.unread
    assert names | book.unread == {rule.name for rule in BOOK.rules}


def test_rules_of_the_user_are_always_read(tmp_path: Path) -> None:
    source = builtin_rules_dir() / "activation" / "gelu-erf.toml"
    (tmp_path / "mine.toml").write_text(source.read_text(encoding="utf-8"), encoding="utf-8")
    book = load_rulebook([tmp_path], present=set())
    assert [rule.name for rule in book.rules] == ["mine"]


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_samples_and_rejects_come_last(file: Path) -> None:
    """What optimizes a model stops reading at the first of them."""
    text = file.read_text(encoding="utf-8")
    tail = text[text.index("[[sample]]") :]
    heads = [line for line in tail.splitlines() if line.startswith("[")]
    assert set(heads) <= {"[[sample]]", "[[reject]]"}
