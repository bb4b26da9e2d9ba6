"""The sample models are what models/README.md says they are."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort
import pytest

MODELS = Path(__file__).parents[2] / "models"
ROW = re.compile(r"^\| `(\w+)\.onnx` \| (\d+) \| (\d+) \| (\d+) \|", re.M)
TABLE = {name: tuple(map(int, numbers)) for name, *numbers in ROW.findall((MODELS / "README.md").read_text())}


def test_every_model_is_in_the_table() -> None:
    assert set(TABLE) == {path.stem for path in MODELS.glob("*.onnx")}


@pytest.mark.parametrize("name", TABLE)
def test_table_tells_opset_and_node_counts(name: str) -> None:
    model = onnx.load(MODELS / f"{name}.onnx")
    onnx.checker.check_model(model, full_check=True)
    nodes = [node.op_type for node in model.graph.node]
    assert TABLE[name] == (model.opset_import[0].version, len(nodes), len(nodes) - nodes.count("Constant"))


@pytest.mark.parametrize("name", TABLE)
def test_inputs_fit_the_model(name: str) -> None:
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = ort.InferenceSession(MODELS / f"{name}.onnx", options, providers=["CPUExecutionProvider"])
    with np.load(MODELS / f"{name}.npz") as feeds:
        for value in session.run(None, dict(feeds)):
            assert np.isfinite(value).all()
            assert value.std() > 0
