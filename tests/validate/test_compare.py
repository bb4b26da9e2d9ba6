"""The figures of a comparison, against values worked out by hand or by numpy in float64."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from onnxfuse.validate.compare import compare
from onnxfuse.validate.result import OutputCheck
from onnxfuse.validate.tolerance import Tolerance

EXACTLY = Tolerance(rtol=0.0, atol=0.0)


def check(reference: Any, result: Any, tolerance: Tolerance | None = None) -> OutputCheck:
    return compare("y", reference, result, tolerance or Tolerance())


def test_figures_of_a_float_output() -> None:
    # rms of the reference = sqrt((9 + 16) / 2) = 3.5355; bound at 4 = 1e-4 * (4 + 3.5355)
    found = check(np.array([3, 4], np.float32), np.array([3, 4.5], np.float32))
    assert (found.ok, found.max_abs, found.max_rel) == (False, 0.5, 0.125)
    assert found.tolerance == pytest.approx(1e-4 * (4 + np.sqrt(12.5)), rel=1e-12)


def test_an_element_near_zero_may_carry_the_noise_of_its_surroundings() -> None:
    reference = np.array([100, 1e-6], np.float32)
    assert check(reference, np.array([100, 1e-3], np.float32)).ok
    assert not check(np.array([1, 1e-6], np.float32), np.array([1, 1e-3], np.float32)).ok


def test_small_outputs_are_judged_by_their_own_size() -> None:
    probabilities = np.full(1000, 1e-3, np.float32)
    assert not check(probabilities, probabilities * np.float32(1.05)).ok


def test_a_small_slice_is_not_judged_by_a_large_one() -> None:
    boxes = np.full((1, 4, 200), 300, np.float32)
    scores = np.full((1, 2, 200), 0.5, np.float32)
    reference = np.concatenate([boxes, scores], 1)
    moved = reference.copy()
    moved[0, 5, 7] += 1e-3
    assert not check(reference, moved).ok
    moved = reference.copy()
    moved[0, 0, 7] += 1e-3
    assert check(reference, moved).ok


@pytest.mark.parametrize(
    ("dtype", "passes", "fails"),
    [
        (np.float64, 1e-9, 1e-7),
        (np.float32, 1e-5, 1e-3),
        (np.float16, 5e-3, 5e-2),
        (ml_dtypes.bfloat16, 3e-2, 3e-1),
    ],
)
def test_default_tolerance_of_each_type(dtype: Any, passes: float, fails: float) -> None:
    reference = np.ones(3, dtype)
    assert check(reference, (reference.astype(np.float64) * (1 + passes)).astype(dtype)).ok
    assert not check(reference, (reference.astype(np.float64) * (1 + fails)).astype(dtype)).ok


def test_given_tolerances_replace_the_defaults() -> None:
    reference, moved = np.ones(2, np.float32), np.full(2, 1.01, np.float32)
    assert not check(reference, moved).ok
    assert check(reference, moved, Tolerance(rtol=0.02, atol=0.0)).ok
    assert not check(reference, np.nextafter(reference, np.float32(2)), EXACTLY).ok
    assert check(reference, reference, EXACTLY).ok


@pytest.mark.parametrize("special", [np.nan, np.inf, -np.inf])
def test_what_is_not_finite_must_be_in_the_same_places(special: float) -> None:
    reference = np.array([1, special, 2], np.float32)
    assert check(reference, reference.copy()).ok
    found = check(reference, np.array([1, 3, 2], np.float32))
    assert not found.ok and "1 elements" in found.note and found.max_abs == 0.0
    assert not check(np.array([1, 3, 2], np.float32), reference).ok


def test_opposite_infinities_differ() -> None:
    assert not check(np.array([np.inf], np.float32), np.array([-np.inf], np.float32)).ok


@pytest.mark.parametrize(
    ("reference", "result"),
    [
        (np.array([1, 2]), np.array([1, 3])),
        (np.array([True, False]), np.array([True, True])),
        (np.array(["a", "b"], object), np.array(["a", "c"], object)),
        (np.array([2**63 - 1]), np.array([2**63 - 2])),
    ],
)
def test_integers_bools_and_strings_are_exact(reference: np.ndarray, result: np.ndarray) -> None:
    assert check(reference, reference.copy()).ok
    found = check(reference, result)
    assert not found.ok and "1 of" in found.note


def test_shape_and_type_must_agree() -> None:
    found = check(np.ones((2, 3), np.float32), np.ones((3, 2), np.float32))
    assert not found.ok and "[3, 2]" in found.note and "[2, 3]" in found.note
    found = check(np.ones(2, np.float32), np.ones(2, np.float64))
    assert not found.ok and "float64" in found.note


def test_outputs_without_elements_agree() -> None:
    assert check(np.zeros((0, 3), np.float32), np.zeros((0, 3), np.float32)).ok


def test_sequences_and_maps_are_compared_by_element() -> None:
    one, two = np.ones(2, np.float32), np.full(2, 2, np.float32)
    assert check([one, two], [one.copy(), two.copy()]).ok
    found = check([one, two], [one, one])
    assert not found.ok and found.note == "element y[1]"
    assert not check([one], [one, one]).ok
    assert not check([one], one).ok
    assert check({"a": 1.0}, {"a": 1.0}).ok
    assert not check({"a": 1.0}, {"a": 2.0}).ok
    assert not check({"a": 1.0}, {"b": 1.0}).ok
    assert check(None, None).ok
    assert not check(one, None).ok


def test_says_when_agreement_proves_little() -> None:
    flat = np.full(5, 0.25, np.float32)
    assert "proves little" in check(flat, flat).note
    assert "proves little" in check(np.full(2, np.nan, np.float32), np.full(2, np.nan, np.float32)).note
    assert check(np.arange(5.0), np.arange(5.0)).note == ""


def test_large_outputs_are_compared_piece_by_piece() -> None:
    reference = np.ones((3, 1 << 20), np.float32)
    moved = reference.copy()
    moved[-1, -1] = 1.5
    found = check(reference, moved)
    assert not found.ok and found.max_abs == 0.5


FLOATS = hnp.arrays(np.float32, hnp.array_shapes(max_dims=3, max_side=9), elements=st.floats(width=32))


@given(FLOATS, st.randoms(use_true_random=False))
def test_any_floats_equal_themselves_and_give_finite_figures(array: np.ndarray, random: Any) -> None:
    same = check(array, array.copy(), EXACTLY)
    assert same.ok and same.max_abs == 0.0
    other = array.reshape(-1).copy()
    random.shuffle(other)
    found = check(array, other.reshape(array.shape))
    json.dumps(asdict(found), allow_nan=False)
    with np.errstate(all="ignore"):
        differ = np.abs(array.astype(np.float64) - other.reshape(array.shape).astype(np.float64))
    assert found.max_abs == np.max(differ[np.isfinite(differ)], initial=0.0)
