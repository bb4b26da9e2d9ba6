"""What must survive: everything that was not asked to change, through load and save and through opset raising."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest
from onnx import ModelProto

from onnxfuse.model.file import ModelFile, load
from onnxfuse.model.opset import raise_opset
from onnxfuse.model.save import save

from . import rich


def loaded(folder: Path, external: bool) -> ModelFile:
    """Write the rich model and load it, its initializers inline or external."""
    path = folder / "m.onnx"
    if external:
        onnx.save(rich.model(), path, save_as_external_data=True, location="m.bin", size_threshold=1024)
    else:
        path.write_bytes(rich.model().SerializeToString())
    return load(path)


def reread(path: Path) -> ModelProto:
    """Return the model at ``path`` with its external data inline."""
    return onnx.load(path)


def expected(folder: Path, external: bool) -> ModelProto:
    """Return what `loaded` wrote, as onnx itself reads it."""
    return reread(folder / "m.onnx") if external else rich.model()


@pytest.mark.parametrize("external", [False, True])
def test_load_and_save(tmp_path: Path, external: bool) -> None:
    model = loaded(tmp_path, external)
    proto, wanted = ModelProto(), expected(tmp_path, external)
    proto.CopyFrom(model.proto)
    for message in (proto, wanted):
        message.graph.node[2].metadata_props.add(key="touched", value="yes")
    save(model.with_proto(proto), tmp_path / "out.onnx")
    assert reread(tmp_path / "out.onnx") == wanted
    assert (tmp_path / "out.onnx.data").exists() == external


@pytest.mark.parametrize("external", [False, True])
@pytest.mark.parametrize("opset", [18, 20, 23, 26])
def test_load_and_raise_and_save(tmp_path: Path, external: bool, opset: int) -> None:
    model = loaded(tmp_path, external)
    save(raise_opset(model, opset), tmp_path / "out.onnx")
    wanted = expected(tmp_path, external)
    wanted.opset_import[0].version = wanted.functions[0].opset_import[0].version = opset
    wanted.ir_version = max(11, onnx.helper.find_min_ir_version_for(wanted.opset_import, ignore_unknown=True))
    assert reread(tmp_path / "out.onnx") == wanted


def test_rich_model_has_all_that_must_survive() -> None:
    """Guards the tests above: none of it may quietly be missing from the model."""
    text = str(rich.model())
    for word in (
        "metadata_props", "doc_string", "model_version: 42", "tp {", "type_protos {", "graphs {", "sparse_tensor {",
        "sparse_tensors {", "tensors {", "sequence_type", "optional_type", "sparse_initializer", "functions {",
        'domain: "com.example"', "quantization_annotation", "training_info", "configuration {", "ref_attr_name",
        "overload", "denotation",
    ):  # fmt: skip
        assert word in text, word
    assert rich.model().SerializeToString().count(rich.UNKNOWN_FIELD) > 10
    graph = rich.model().graph
    assert {value.name for value in graph.input} & {tensor.name for tensor in graph.initializer} == {"w"}
