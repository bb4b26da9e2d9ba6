"""Equations of Einsum are the same whatever their letters and spaces."""

from __future__ import annotations

import pytest

from ..helpers import model
from .rules import tried

MATCH = '(a, b) => (y) { y = Einsum <equation: string = "bhij,bhjk->bhik"> (a, b) }'


@pytest.mark.parametrize("equation, expected", [
    ("bhij,bhjk->bhik", 1), ("bhqd, bhdk -> bhqk", 1), ("abcd,abde->abce", 1), ("zYxw,zYwv->zYxv", 1),
    ("bhij,bhjk->bhki", 0), ("bhij,bhkj->bhik", 0), ("bhij,bhjk", 0), ("bhjj,bhjk->bhjk", 0),
])  # fmt: skip
def test_letters_do_not_matter(equation: str, expected: int) -> None:
    text = f"""g (float[2,2,2,2] a, float[2,2,2,2] b) => (float[2,2,2,2] y) {{
        y = Einsum <equation: string = "{equation}"> (a, b) }}"""
    assert tried(model(text), MATCH, 'a = "T"\nb = "T"', rewrite="(a, b) => (y) { y = MatMul (a, b) }")[0] == expected
