"""Reports made by hand, for the tests of whatever shows them."""

from __future__ import annotations

from dataclasses import replace

from onnxfuse.report import Change, ModelRecord, Report, Tool
from onnxfuse.rewrite.trace import Fusion, NearMiss, NodeRecord, WeightRecord
from onnxfuse.validate.result import OutputCheck, Run, Validation


def conv_batchnorm(index: int) -> Fusion:
    conv = NodeRecord(f"conv{index}", "Conv", (f"c{index}",))
    norm = NodeRecord(f"bn{index}", "BatchNormalization", (f"b{index}",))
    fused = NodeRecord(f"conv{index}", "Conv", (f"b{index}",))
    weights = (WeightRecord(f"w{index}", "float32", (8, 3, 3, 3)), WeightRecord(f"b{index}_bias", "float32", (8,)))
    return Fusion("conv-batchnorm", "no-bias", "", (conv, norm), (fused,), weights)


def validation(max_abs: float = 2.9e-6, *, ok: bool = True, note: str = "") -> Validation:
    check = OutputCheck("y", "float32", (2, 10), max_abs, 1.5e-6, 1e-4, ok, note)
    runs = tuple(Run(level, 0, {"x": (2, 3, 8, 8)}, (check,)) for level in ("off", "all"))
    return Validation("CPUExecutionProvider", "not on CUDA: no CUDA device", runs)


def report(pairs: int = 2, **fields: object) -> Report:
    """A report on a model with ``pairs`` Conv + BatchNormalization pairs and one Erf in it."""
    before = {"BatchNormalization": pairs, "Conv": pairs, "Erf": 1}
    after = {"Conv": pairs, "Erf": 1}
    model = ModelRecord(
        path="models/net.onnx",
        sha256="ab" * 32,
        output="models/net.opt.onnx",
        opset=Change(13, 13),
        ops=Change(before, after),
        bytes=Change(52_140, 51_008),
    )
    whole = Report(
        tool=Tool("1.20.0", "1.23.0"),
        model=model,
        fusions=tuple(conv_batchnorm(index) for index in range(pairs)),
        undone=(),
        near_misses=(NearMiss("gelu-erf", "Erf_7", "the input of Erf is not divided by sqrt(2)"),),
        steps=("opset kept at 13: no fusion found needs a higher one",),
        validation=validation(),
        verdict="optimized",
    )
    return replace(whole, **fields)  # type: ignore[arg-type]


def mismatch() -> Report:
    """The same, but the result does not agree with the original and is not written."""
    good = report()
    return replace(
        good, model=replace(good.model, output=None), validation=validation(0.3, ok=False), verdict="mismatch"
    )
