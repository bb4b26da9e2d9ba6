"""Random models before and after: whatever is put together, it must still give what it gave."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from onnxfuse.pipeline import optimize

from ..helpers import Array, run, valid
from .models import random_model

# Random chains amplify rounding: relative to the greatest magnitude of an output.
TOLERANCES = {"float16": 4e-2, "float32": 5e-4, "float64": 1e-6}
SEEDS = range(48)
BATCH = 12


def differences(before: dict[str, Array], after: dict[str, Array]) -> list[str]:
    """Return the outputs that differ by more than rounding."""
    found = []
    for name, expected in before.items():
        actual = after[name]
        if (actual.shape, actual.dtype) != (expected.shape, expected.dtype):
            found.append(f"{name}: {expected.dtype}{expected.shape} became {actual.dtype}{actual.shape}")
        elif expected.size and np.isfinite(expected).all():
            error = np.abs(actual.astype(float) - expected.astype(float)).max() / (np.abs(expected).max() + 1e-2)
            if not error <= TOLERANCES[str(expected.dtype)]:
                found.append(f"{name} differs by {error}")
    return found


def optimized_rightly(seed: int) -> Counter[str]:
    """Optimize the model of a seed and check the result; return how often each rule was applied.

    A model that onnxruntime cannot run, for want of a kernel, proves nothing and is passed over.
    """
    model, feeds = random_model(seed)
    try:
        before = run(model, feeds)
    except Exception:
        return Counter({"passed over": 1})
    result = optimize(model, validate=False)
    assert valid(result.model) or not valid(model), seed
    after = run(result.model, feeds)
    assert list(after) == list(before), seed
    assert not differences(before, after), seed
    assert not optimize(result.model, validate=False).fusions, seed
    return Counter(fusion.rule for fusion in result.fusions)


@pytest.mark.parametrize("first", SEEDS[::BATCH])
def test_random_models(first: int) -> None:
    applied: Counter[str] = Counter()
    for seed in range(first, first + BATCH):
        applied += optimized_rightly(seed)
    assert applied["passed over"] <= BATCH // 2
    assert sum(applied.values()) > BATCH, "the models are not what the rules look for"
