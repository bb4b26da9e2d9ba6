"""The nine whole CNNs of the onnx package: same outputs, no BatchNormalization left behind a Conv, no file bloated."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from onnxfuse import Result, optimize
from tests.judge import batchnorms_behind_conv, load_whole, ops, run, unread_initializers
from tests.models import light

FULLY_FOLDED = {"light_resnet50", "light_densenet121"}


@pytest.fixture(scope="module", params=light.NAMES)
def shipped(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Result, Path]:
    """A model as the onnx package ships it, optimized and validated: its name, the result and the file written."""
    output = tmp_path_factory.mktemp("light") / "fused.onnx"
    return request.param, optimize(light.FOLDER / f"{request.param}.onnx", output=output, provider="cpu"), output


def test_there_are_nine() -> None:
    assert len(light.NAMES) == 9
    assert set(light.NAMES) >= FULLY_FOLDED


def test_output_is_the_one_beside_the_model(shipped: tuple[str, Result, Path]) -> None:
    name, result, output = shipped
    model = load_whole(output)
    (value,) = run(output, light.ramp(model))
    assert result.validation is not None and result.validation.ok
    np.testing.assert_allclose(value, light.expected(name), rtol=1e-4, atol=0)


def test_no_foldable_batchnorm_and_no_unread_weight_is_left(shipped: tuple[str, Result, Path]) -> None:
    name, _, output = shipped
    before, after = onnx.load(light.FOLDER / f"{name}.onnx"), onnx.load(output)
    assert batchnorms_behind_conv(after) == []
    assert set(unread_initializers(after)) <= set(unread_initializers(before))
    assert ops(after)["BatchNormalization"] == ops(before)["BatchNormalization"] - len(batchnorms_behind_conv(before))


def test_file_grows_only_by_the_weights_that_folds_made(shipped: tuple[str, Result, Path]) -> None:
    name, result, output = shipped
    made = {weight.name: weight for fusion in result.fusions for weight in fusion.weights}
    size = sum(4 * int(np.prod(weight.shape)) for weight in made.values())
    notes = 200 * (len(result.fusions) + len(made))  # names, shapes, and which rule made a node from what
    assert output.stat().st_size <= (light.FOLDER / f"{name}.onnx").stat().st_size + size + notes * bool(size)


@pytest.mark.parametrize("name", light.NAMES)
def test_with_real_weights_the_result_equals_the_original(name: str, tmp_path: Path) -> None:
    model = light.with_real_weights(name)
    result = optimize(model, output=tmp_path / "fused.onnx", provider="cpu")
    (want,), (got,) = (run(made, light.ramp(model)) for made in (model, tmp_path / "fused.onnx"))
    assert want.std() > 0.05 * np.abs(want).mean()  # not flat, so it can tell
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4 * float(np.abs(want).mean()))
    assert batchnorms_behind_conv(load_whole(tmp_path / "fused.onnx")) == []
    assert result.validation is not None and result.validation.ok


def test_a_slightly_wrong_fold_would_be_seen() -> None:
    """One variance in the middle of the network, 1% too large, moves the output by more than the tolerance."""
    model = light.with_real_weights("light_shufflenet")
    (want,) = run(model, light.ramp(model))
    norms = [node for node in model.graph.node if node.op_type == "BatchNormalization"]
    variance = next(tensor for tensor in model.graph.initializer if tensor.name == norms[len(norms) // 2].input[4])
    variance.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(variance) * np.float32(1.01), variance.name))
    (wrong,) = run(model, light.ramp(model))
    assert not np.allclose(wrong, want, rtol=1e-4, atol=1e-4 * float(np.abs(want).mean()))


def test_batchnorms_behind_conv_are_told_by_their_readers() -> None:
    """The judge itself: a Conv that something else reads, too, keeps its norm."""
    pair = [helper.make_node("Conv", ["x", "w"], ["c"]), helper.make_node("BatchNormalization", ["c", *"sbmv"], ["y"])]
    graph = helper.make_graph(pair, "g", [], [helper.make_tensor_value_info("y", 1, None)])
    assert batchnorms_behind_conv(helper.make_model(graph)) == ["y"]
    graph.output.append(helper.make_tensor_value_info("c", 1, None))
    assert batchnorms_behind_conv(helper.make_model(graph)) == []
