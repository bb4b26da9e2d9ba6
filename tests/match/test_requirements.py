"""[[require]]: what must be true of constants, attributes and dims, and what the report says where it is not."""

from __future__ import annotations

from pathlib import Path

import pytest

from onnxfuse.errors import RuleError
from onnxfuse.rulebook.load import load_rulebook

from ..helpers import model, rule_file
from .rules import EVERY, tried

IDENTITY = """
[[require]]
why  = "the permutation is the identity"
text = "() => (ok) { p = Constant <value_ints: ints = @perm> ()  n = Size (p)  z = Constant <value_int: int = 0> () \
i = Constant <value_int: int = 1> ()  all = Range (z, n, i)  ok = Equal (p, all) }"
"""
TRANSPOSE = "(x) => (y) { y = Transpose <perm: ints = @perm> (x) }"


def transposed(perm: str, dims: str = "2,2,2") -> tuple[int, list[str]]:
    proto = model(f"g (float[{dims}] x) => (float[{dims}] y) {{ y = Transpose {perm} (x) }}")
    return tried(proto, TRANSPOSE, head=EVERY + IDENTITY.replace("\\\n", ""))


def test_of_an_attribute() -> None:
    assert transposed("<perm = [0, 1, 2]>") == (1, [])
    assert transposed("<perm = [0, 2, 1]>") == (0, ["it does not hold that the permutation is the identity"])


def test_a_missing_permutation_is_the_reversed_order() -> None:
    assert transposed("", "4")[0] == 1
    assert transposed("")[0] == 0


POSITIVE = """
[[require]]
why  = "c is positive"
text = "(c) => (ok) { z = Constant <value_float: float = 0.0> ()  ok = Less (z, c) }"
"""


@pytest.mark.parametrize("numbers, expected", [("1, 2", 1), ("1, 0", 0), ("-1, 2", 0)])
def test_of_every_element_of_a_weight(numbers: str, expected: int) -> None:
    proto = model(f"g (float[2] x) => (float[2] y) <float[2] c = {{{numbers}}}> {{ y = Mul (x, c) }}")
    found = tried(proto, "(x, c) => (y) { y = Mul (x, c) }", 'x = "T"\nc = "const T"', head=EVERY + POSITIVE)
    assert found == (expected, [] if expected else ["it does not hold that c is positive"])


SHORT = """
[[require]]
why  = "there are at most three rows"
text = "() => (ok) { n = Constant <value_int: int = @N> ()  k = Constant <value_int: int = 4> ()  ok = Less (n, k) }"
"""


@pytest.mark.parametrize("dim, reason", [
    ("3", ""), ("4", "it does not hold that there are at most three rows"),
    ("n", "'N' is not known, so it cannot be told whether there are at most three rows"),
])  # fmt: skip
def test_of_a_dim(dim: str, reason: str) -> None:
    proto = model(f"g (float[{dim},2] x) => (float[{dim},2] y) {{ y = Abs (x) }}")
    found = tried(proto, "(x) => (y) { y = Abs (x) }", 'x = "T[N, _]"', head=EVERY + SHORT)
    assert found == (0 if reason else 1, [reason] if reason else [])


@pytest.mark.parametrize("text, message", [
    ("(x) => (ok) { ok = Not (x) }", "'x' is no constant input of the rule"),
    ("(c) => (ok) { ok = form.Odd (c) }", "cannot call a form"),
    ("(c) => (a, b) { a = Neg (c)  b = Neg (c) }", "it must compute one truth value"),
    ("(c) => (ok) { ok = com.acme.Odd (c) }", "it must compute one truth value"),
])  # fmt: skip
def test_what_cannot_be_folded_is_no_requirement(text: str, message: str, tmp_path: Path) -> None:
    head = EVERY + f'[[require]]\nwhy = "so"\ntext = "{text}"\n'
    match, rewrite = "(x, c) => (y) { y = Mul (x, c) }", "(x, c) => (y) { y = Add (x, c) }"
    with pytest.raises(RuleError, match=message):
        load_rulebook([rule_file(tmp_path, match, rewrite, 'x = "T"\nc = "const T"', head=head)], builtin=False)
