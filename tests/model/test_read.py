"""Reading the values of weights, wherever and however they are stored."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from onnxfuse.errors import InputError
from onnxfuse.model.file import from_proto, load

from . import rich


def test_every_type_is_read_as_onnx_reads_it(tmp_path: Path) -> None:
    onnx.save(rich.model(), tmp_path / "m.onnx")
    model = load(tmp_path / "m.onnx")
    for view, whole in zip(model.proto.graph.initializer, rich.model().graph.initializer, strict=True):
        expected = numpy_helper.to_array(whole)
        values = model.read(view)
        assert values.dtype == expected.dtype and values.shape == expected.shape
        assert values.tobytes() == expected.tobytes() or values.dtype == object
    assert model.read(model.proto.graph.initializer[-1]).tolist() == ["one", "two"]


def test_external_data_and_model_in_memory(tmp_path: Path) -> None:
    weight = rich.tensor("w")
    graph = helper.make_graph([], "g", [], [], [weight])
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(proto, tmp_path / "m.onnx", save_as_external_data=True, location="w.bin", size_threshold=0)
    external = onnx.load(tmp_path / "m.onnx", load_external_data=False)
    for model in (load(tmp_path / "m.onnx"), from_proto(external, tmp_path)):
        assert (model.read(model.proto.graph.initializer[0]) == numpy_helper.to_array(weight)).all()
        assert model.materialize().graph.initializer[0].raw_data == weight.raw_data


@pytest.mark.parametrize("dims", [[rich.LARGE + 1], [2, rich.LARGE], [rich.LARGE - 1]])
def test_data_that_does_not_fit(tmp_path: Path, dims: list[int]) -> None:
    weight = rich.tensor("w")
    weight.ClearField("dims")
    weight.dims.extend(dims)
    graph = helper.make_graph([], "g", [], [], [weight])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), tmp_path / "m.onnx")
    model = load(tmp_path / "m.onnx")
    with pytest.raises(InputError, match="'w'"):
        model.read(model.proto.graph.initializer[0])


def test_file_that_shrinks_while_in_use(tmp_path: Path) -> None:
    onnx.save(rich.model(), tmp_path / "m.onnx")
    model = load(tmp_path / "m.onnx")
    (tmp_path / "m.onnx").write_bytes(b"short")
    with pytest.raises(InputError, match="ends before"):
        model.read(model.proto.graph.initializer[0])


def test_file_that_is_replaced_while_in_use(tmp_path: Path) -> None:
    onnx.save(rich.model(), tmp_path / "m.onnx")
    model = load(tmp_path / "m.onnx")
    (tmp_path / "new").write_bytes(b"short")
    (tmp_path / "new").replace(tmp_path / "m.onnx")
    assert (model.read(model.proto.graph.initializer[0]) == numpy_helper.to_array(rich.tensor("w"))).all()


def test_unknown_type() -> None:
    with pytest.raises(InputError, match="'w'"):
        from_proto(rich.model()).read(TensorProto(name="w", data_type=99, dims=[1], raw_data=b"1"))
