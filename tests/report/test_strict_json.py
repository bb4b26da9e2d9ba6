"""The JSON is strict, sorted, and reads back as what was put in."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from onnxfuse.report import strict_json

_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


def _refuse(token: str) -> object:
    raise ValueError(f"not JSON: {token}")


@given(_VALUES)
def test_reads_back_as_it_was(value: object) -> None:
    assert json.loads(strict_json.dumps(value), parse_constant=_refuse) == value


@pytest.mark.parametrize(
    ("value", "expected"),
    [(float("nan"), "NaN"), (float("inf"), "Infinity"), (float("-inf"), "-Infinity"), (np.float64("inf"), "Infinity")],
)
def test_what_json_cannot_hold_is_a_string(value: float, expected: str) -> None:
    text = strict_json.dumps({"a": [value, (value,)]})
    assert json.loads(text, parse_constant=_refuse) == {"a": [expected, [expected]]}


def test_bytes_do_not_depend_on_the_order_of_keys() -> None:
    assert strict_json.dumps({"b": 1, "a": {"d": 2, "c": 3}}) == strict_json.dumps({"a": {"c": 3, "d": 2}, "b": 1})


def test_names_of_any_alphabet_are_ascii_bytes() -> None:
    text = strict_json.dumps({"name": "Größe \udcff \x1b[31m"})
    assert text.isascii()
    assert "\x1b" not in text
