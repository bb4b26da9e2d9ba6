"""Every rule file that is shipped: its text is clean, and onnxruntime and the engine prove it."""

from __future__ import annotations

import pytest

from onnxfuse.prove import prove_form, verify_rule
from onnxfuse.rulebook.checks.lint import lint
from onnxfuse.rulebook.load import load_rulebook

BOOK = load_rulebook()
NAMES = [rule.name for rule in BOOK.rules]


@pytest.mark.parametrize("name", NAMES)
def test_the_text_is_clean(name: str) -> None:
    assert not [str(finding) for finding in lint(BOOK, [name])]


@pytest.mark.parametrize("name", NAMES)
def test_the_rule_is_proven(name: str) -> None:
    proof = verify_rule(BOOK, name)
    assert not proof.problems, "\n".join(map(str, proof.problems))
    assert proof.run and proof.fired and proof.refused


@pytest.mark.parametrize("name", sorted(BOOK.forms))
def test_the_spellings_of_a_form_agree(name: str) -> None:
    proof = prove_form(BOOK, name, seed=0)
    assert not proof.problems, "\n".join(map(str, proof.problems))
    assert proof.run
