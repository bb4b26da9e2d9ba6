"""Guard strings and the choice of rules by name."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onnxfuse.errors import UsageError
from onnxfuse.rulebook.rule import Guard
from onnxfuse.rulebook.select import selected
from onnxfuse.rulebook.syntax.guards import parse_guard

TYPES = {"T", "float", "int64", "any"}


@pytest.mark.parametrize(
    "text, guard",
    [
        ("T", Guard("T")),
        ("const T", Guard("T", const=True)),
        ("T[]", Guard("T", dims=())),
        ("T[M, 3, _]", Guard("T", dims=("M", 3, "_"))),
        ("  const   float[ N ,C,... ] ? ", Guard("float", const=True, dims=("N", "C", "..."), optional=True)),
        ("T[..., V...]", Guard("T", dims=("...", "V..."))),
        ("T -> [M, N]", Guard("T", onto=("M", "N"))),
        ("T -> [1, M, 1*S]", Guard("T", onto=(1, "M", "1*S"))),
        ("own const T[K, _]", Guard("T", const=True, dims=("K", "_"), own=True)),
        ("T[N]->[M,N]", Guard("T", dims=("N",), onto=("M", "N"))),
        ("T? -> [M]", Guard("T", optional=True, onto=("M",))),
        ("any", Guard("any")),
    ],
)
def test_guards(text: str, guard: Guard) -> None:
    assert parse_guard(text, TYPES) == guard


@pytest.mark.parametrize(
    "text, reason",
    [
        ("U", "'U' is neither"), ("", "form"), ("const", "'const' is neither"), ("T[", "form"), ("T]", "form"),
        ("T[N,]", "'' is no dim"), ("T[N M]", "'N M' is no dim"), ("T[-1]", "'-1' is no dim"), ("T ->", "form"),
        ("T[..., ...]", "only once"), ("T[V..., W...]", "only once"), ("T[N+1]", "no dim"), ("Tconst", "neither"),
        ("T -> [N", "form"), ("T[1.5]", "no dim"), ("T[N] [M]", "form"),
    ],
)  # fmt: skip
def test_what_is_no_guard(text: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        parse_guard(text, TYPES)


@given(st.text(max_size=40) | st.text("constT[],.?->_ N13V", max_size=20))
def test_any_text_is_a_guard_or_a_value_error(text: str) -> None:
    try:
        parse_guard(text, TYPES)
    except ValueError as error:
        assert str(error)


NAMES = ["conv-batchnorm", "gelu-erf", "gelu-tanh", "layernorm"]


@pytest.mark.parametrize(
    "select, ignore, chosen",
    [
        ([], [], NAMES), (["gelu-*"], [], ["gelu-erf", "gelu-tanh"]), ([], ["gelu-*"], ["conv-batchnorm", "layernorm"]),
        (["*"], ["*"], []), (["gelu-*", "layernorm"], ["gelu-erf"], ["gelu-tanh", "layernorm"]),
        (["gelu-[et]*"], [], ["gelu-erf", "gelu-tanh"]), (["gelu-???"], [], ["gelu-erf"]),
    ],
)  # fmt: skip
def test_selected(select: list[str], ignore: list[str], chosen: list[str]) -> None:
    assert selected(NAMES, select, ignore) == frozenset(chosen)


def test_patterns_that_match_nothing() -> None:
    with pytest.raises(UsageError, match="did you mean 'layernorm'"):
        selected(NAMES, ["layernrom"], [])
    with pytest.raises(UsageError, match="no rule is called 'Gelu-erf'"):
        selected(NAMES, [], ["Gelu-erf"])
    with pytest.raises(UsageError, match=r"no rule is called 'pad-\*'"):
        selected(NAMES, ["gelu-*", "pad-*"], [])
