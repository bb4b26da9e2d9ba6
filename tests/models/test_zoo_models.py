"""Models as PyTorch's exporters write them: the norms, activations and folds that each must end with, same outputs."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import onnx
import pytest

from onnxfuse import OriginalFailsError, optimize
from tests.judge import Array, batchnorms_behind_conv, load_whole, ops, run, unread_initializers

ROOT = Path(__file__).parents[2]
ZOO, SAMPLES = ROOT / "tests" / "data" / "zoo", ROOT / "models"
# What is allowed to differ, relative to the largest magnitude of an output.
TOLERANCE = {np.dtype("float32"): 2e-5, np.dtype("float16"): 1e-2}


@dataclass(frozen=True)
class Case:
    """What the result holds how often (the architecture tells), at which opset, and what is gone from it."""

    made: dict[str, int]
    opset: int
    gone: tuple[str, ...] = ()
    folder: Path = field(default=ZOO)


_TRANSFORMER = {"LayerNormalization": 5, "Gelu": 2}
_NORMS = {"LayerNormalization": 1, "RMSNormalization": 2, "Gelu": 2}
_HAND_WRITTEN = ("ReduceMean", "Erf", "Pow", "Sqrt")
CASES = {
    "bert": Case(_TRANSFORMER, 20, (*_HAND_WRITTEN, "Reciprocal"), SAMPLES),
    "cnn": Case({"Conv": 3, "ConvTranspose": 2}, 13, (), SAMPLES),
    "llama": Case({"RMSNormalization": 5}, 23, _HAND_WRITTEN, SAMPLES),
    "bert-fp16-ts-13": Case(_TRANSFORMER, 20, ("ReduceMean", "Erf")),
    "convnet-ts-17": Case({"Conv": 3, "ConvTranspose": 2}, 17),
    "gpt2-ts-13": Case(_TRANSFORMER, 20, ("ReduceMean",)),
    "llama-fp16-ts-13": Case({"RMSNormalization": 5}, 23, ("ReduceMean",)),
    "lstm-ts-13": Case({"LayerNormalization": 1, "LSTM": 1}, 17, _HAND_WRITTEN),
    "norms-dynamo-18": Case(_NORMS, 23, _HAND_WRITTEN),
    "norms-ts-11": Case(_NORMS, 23, _HAND_WRITTEN),
    "norms-ts-17": Case(_NORMS, 23, _HAND_WRITTEN),
    "t5-gated-ts-13": Case({"RMSNormalization": 5, "Gelu": 2}, 23, ("ReduceMean",)),
    "vit-ts-11": Case(_TRANSFORMER, 20, _HAND_WRITTEN),
    "whisper-encoder-ts-13": Case({"LayerNormalization": 5, "Gelu": 4}, 20, _HAND_WRITTEN),
}


def test_every_model_has_an_expectation() -> None:
    there = {path.stem for folder in (ZOO, SAMPLES) for path in folder.glob("*.onnx") if ".opt" not in path.name}
    assert there == {*CASES, "bert-fp16-ts-17"}


@pytest.mark.parametrize("name", CASES)
def test_result_holds_what_it_should_and_computes_the_same(name: str, tmp_path: Path) -> None:
    case = CASES[name]
    source, output = case.folder / f"{name}.onnx", tmp_path / "fused.onnx"
    result = optimize(source, output=output, provider="cpu")
    before, after = onnx.load(source), load_whole(output)
    assert {op: ops(after)[op] for op in case.made} == case.made
    assert [op for op in case.gone if ops(after)[op]] == []
    assert after.opset_import[0].version == case.opset
    assert batchnorms_behind_conv(after) == []
    assert set(unread_initializers(after)) <= set(unread_initializers(before))
    assert result.validation is not None and result.validation.ok
    with np.load(source.with_suffix(".npz")) as feeds:
        _assert_same(run(source, dict(feeds)), run(output, dict(feeds)))


def _assert_same(wants: list[Array], gots: list[Array]) -> None:
    for want, got in zip(wants, gots, strict=True):
        assert (got.dtype, got.shape) == (want.dtype, want.shape)
        scale = float(np.abs(want.astype(np.float64)).max())
        np.testing.assert_allclose(got.astype(np.float64), want, rtol=0, atol=scale * TOLERANCE[want.dtype])


def test_a_model_that_onnxruntime_refuses_is_not_trusted(tmp_path: Path) -> None:
    source = ZOO / "bert-fp16-ts-17.onnx"
    with pytest.raises(OriginalFailsError, match="LayerNorm"):
        optimize(source, output=tmp_path / "fused.onnx", provider="cpu")
    assert list(tmp_path.iterdir()) == []
    assert optimize(source, output=tmp_path / "fused.onnx", validate=False).fusions
