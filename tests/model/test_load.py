"""Loading: what comes of good files, and one clear line for each kind of bad one."""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import ModelProto, TensorProto, helper

from onnxfuse.errors import InputError
from onnxfuse.model.file import from_proto, load

from . import rich


def small(opset: int = 17, ir: int = 8, domain: str = "") -> ModelProto:
    """Return a model of one Relu and a large weight that nothing uses."""
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [2]) for name in "xy")
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "g", [x], [y], [rich.tensor("w")])
    imports = [helper.make_opsetid("", 17)] if domain else []
    return helper.make_model(graph, opset_imports=[*imports, helper.make_opsetid(domain, opset)], ir_version=ir)


def with_external(folder: Path, location: str = "w.bin", **entries: str) -> Path:
    """Write a model whose weight is external, without its data file, and return the path."""
    proto = small()
    weight = proto.graph.initializer[0]
    weight.ClearField("raw_data")
    weight.data_location = TensorProto.EXTERNAL
    for key, value in {"location": location, **entries}.items():
        weight.external_data.add(key=key, value=value)
    return written(folder, proto.SerializeToString())


def written(folder: Path, data: bytes) -> Path:
    path = folder / "m.onnx"
    path.write_bytes(data)
    return path


def no_graph() -> ModelProto:
    proto = small()
    proto.ClearField("graph")
    return proto


def no_opset(ir: int = 8) -> ModelProto:
    proto = small(ir=ir)
    del proto.opset_import[:]
    return proto


def only_custom_opset() -> ModelProto:
    proto = no_opset()
    proto.opset_import.append(helper.make_opsetid("com.example", 1))
    return proto


def no_ir() -> ModelProto:
    proto = small()
    proto.ClearField("ir_version")
    return proto


BAD_BYTES: dict[str, tuple[Callable[[], bytes], str]] = {
    "empty": (bytes, "is empty"),
    "text": (lambda: b"<html><body>404: not found</body></html>\n", "text file"),
    "accented text": (lambda: "déjà vu ".encode() * 100, "text file"),
    "lfs": (lambda: b"version https://git-lfs.github.com/spec/v1\noid sha256:ab\nsize 5\n", "git lfs pull"),
    "zip": (lambda: b"PK\x03\x04" + bytes(80), "zip archive"),
    "hdf5": (lambda: b"\x89HDF\r\n\x1a\n" + bytes(80), "HDF5"),
    "ort": (lambda: b"\x20\0\0\0ORTM" + bytes(80), "ORT format"),
    "zeros": (lambda: bytes(5000), "not an ONNX model"),
    "truncated": (lambda: small().SerializeToString()[:-500], "truncated"),
    "no graph": (lambda: no_graph().SerializeToString(), "no graph"),
    "no ir version": (lambda: no_ir().SerializeToString(), "no IR version"),
    "ir version": (lambda: small(ir=onnx.IR_VERSION + 1).SerializeToString(), "IR version"),
    "opset": (lambda: small(opset=999).SerializeToString(), "opset 999 of domain ai.onnx"),
    "opset 0": (lambda: small(opset=0).SerializeToString(), "opset 0"),
    "opset by full name": (lambda: small(opset=999, domain="ai.onnx").SerializeToString(), "opset 999"),
    "ml opset": (lambda: small(opset=99, domain="ai.onnx.ml").SerializeToString(), "ai.onnx.ml"),
    "training opset": (lambda: small(opset=99, domain="ai.onnx.training").SerializeToString(), "ai.onnx.training"),
    "no opset": (lambda: no_opset().SerializeToString(), "imports no opset"),
    "only a custom opset": (lambda: only_custom_opset().SerializeToString(), "default domain"),
}


@pytest.mark.parametrize("kind", BAD_BYTES)
def test_bad_bytes(tmp_path: Path, kind: str) -> None:
    make, reason = BAD_BYTES[kind]
    path = written(tmp_path, make())
    with pytest.raises(InputError, match=reason) as caught:
        load(path)
    assert str(path) in str(caught.value) and "\n" not in str(caught.value)
    assert caught.value.exit_code == 2


def test_missing(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such file"):
        load(tmp_path / "none.onnx")
    with pytest.raises(InputError, match="no such file"):
        load(written(tmp_path, b"x") / "none.onnx")


def test_folder(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="is a folder"):
        load(tmp_path)


def test_name_that_no_file_can_have(tmp_path: Path) -> None:
    with pytest.raises(InputError):
        load(tmp_path / ("n" * 5000))


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs pipes")
def test_pipe(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "m.onnx")
    with pytest.raises(InputError, match="regular file"):
        load(tmp_path / "m.onnx")


@pytest.mark.skipif(os.name == "nt" or os.geteuid() == 0, reason="needs a user whom permissions bind")
def test_unreadable(tmp_path: Path) -> None:
    path = written(tmp_path, small().SerializeToString())
    path.chmod(0)
    with pytest.raises(InputError, match="permission"):
        load(path)


@pytest.mark.parametrize(("location", "reason"), [
    ("w.bin", "no such file"), ("../w.bin", "not a path inside"), ("a/../../w.bin", "not a path inside"),
    ("/etc/passwd", "not a path inside"), ("C:\\w.bin", "not a path inside"), ("\\\\host\\w.bin", "not a path inside"),
    ("..\\w.bin", "not a path inside"), ("", "not a path inside"), (".", "not a path inside"),
    ("a\0b", "not a path inside"), ("m.onnx", "names the model file itself"), ("*/_ORT_MEM_ADDR_/*", "no such file"),
])  # fmt: skip
def test_bad_location(tmp_path: Path, location: str, reason: str) -> None:
    with pytest.raises(InputError, match=reason):
        load(with_external(tmp_path, location))


@pytest.mark.parametrize(("entries", "reason"), [
    ({"length": "2800"}, "has 2000 bytes"), ({"offset": "1000", "length": "1001"}, "bytes 1000 to 2001"),
    ({"offset": "2001"}, "has 2000 bytes"), ({"offset": "-1"}, "negative"), ({"length": "x"}, "no number"),
])  # fmt: skip
def test_bad_extent(tmp_path: Path, entries: dict[str, str], reason: str) -> None:
    (tmp_path / "w.bin").write_bytes(bytes(2000))
    with pytest.raises(InputError, match=reason) as caught:
        load(with_external(tmp_path, **entries))
    assert "'w'" in str(caught.value)


def test_location_that_a_link_leads_outside(tmp_path: Path) -> None:
    (tmp_path / "secret").write_bytes(bytes(2800))
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "w.bin").symlink_to(tmp_path / "secret")
    with pytest.raises(InputError, match="outside"):
        load(with_external(tmp_path / "model"))


def test_model_and_data_in_a_download_cache(tmp_path: Path) -> None:
    for folder in ("blobs", "snapshot"):
        (tmp_path / folder).mkdir()
    weight = np.arange(rich.LARGE, dtype=np.float32)
    (tmp_path / "blobs" / "b2").write_bytes(weight.tobytes())
    os.rename(with_external(tmp_path), tmp_path / "blobs" / "b1")
    (tmp_path / "snapshot" / "m.onnx").symlink_to("../blobs/b1")
    (tmp_path / "snapshot" / "w.bin").symlink_to("../blobs/b2")
    model = load(tmp_path / "snapshot" / "m.onnx")
    assert model.folder == tmp_path / "blobs"
    assert (model.read(model.proto.graph.initializer[0]) == weight).all()


def test_linked_model_with_data_elsewhere(tmp_path: Path) -> None:
    for folder in ("links", "real"):
        (tmp_path / folder).mkdir()
    (tmp_path / "links" / "w.bin").write_bytes(bytes(2800))
    (tmp_path / "links" / "m.onnx").symlink_to(with_external(tmp_path / "real"))
    with pytest.raises(InputError, match="one folder"):
        load(tmp_path / "links" / "m.onnx")


def test_location_that_goes_up_in_a_linked_model(tmp_path: Path) -> None:
    (tmp_path / "links").mkdir()
    (tmp_path / "w.bin").write_bytes(bytes(2800))
    (tmp_path / "links" / "m.onnx").symlink_to(with_external(tmp_path, "../w.bin"))
    with pytest.raises(InputError, match="not a path inside"):
        load(tmp_path / "links" / "m.onnx")


def test_link_to_itself(tmp_path: Path) -> None:
    (tmp_path / "m.onnx").symlink_to("m.onnx")
    with pytest.raises(InputError, match="cannot be read"):
        load(tmp_path / "m.onnx")


@pytest.mark.parametrize("proto", [
    pytest.param(small(opset=99, domain="com.example"), id="custom domain"),
    pytest.param(small(opset=17, domain="ai.onnx"), id="full name of the default domain"),
    pytest.param(no_opset(ir=2), id="opset 1 of old"),
])  # fmt: skip
def test_unusual_but_good(tmp_path: Path, proto: ModelProto) -> None:
    assert load(written(tmp_path, proto.SerializeToString())).materialize() == proto


def test_loaded_model_says_the_same(tmp_path: Path) -> None:
    proto = rich.model()
    model = load(written(tmp_path, proto.SerializeToString()))
    assert model.materialize() == proto
    assert model.proto.graph.initializer[0].external_data[0].value == "m.onnx"
    assert not model.proto.graph.initializer[0].raw_data


def test_size_and_digest_are_those_of_the_files(tmp_path: Path) -> None:
    (tmp_path / "w.bin").write_bytes(bytes(9999))
    path = with_external(tmp_path, offset="99", length="2800")
    assert load(path).size == path.stat().st_size + 2800
    path = written(tmp_path, b"\x3a\x00" + small().SerializeToString())
    model = load(path)
    assert model.size == path.stat().st_size
    assert model.sha256 == hashlib.sha256(path.read_bytes()).hexdigest()


def test_size_and_digest_of_a_changed_model(tmp_path: Path) -> None:
    model = load(written(tmp_path, small().SerializeToString()))
    changed = small()
    changed.doc_string = "changed"
    skeleton = ModelProto()
    skeleton.CopyFrom(model.proto)
    skeleton.doc_string = "changed"
    assert model.with_proto(skeleton).size == len(changed.SerializeToString())
    assert model.with_proto(skeleton).sha256 != model.sha256


def test_proto_in_memory_is_copied() -> None:
    proto = rich.model()
    model = from_proto(proto)
    model.proto.graph.node[0].name = "changed"
    assert proto == rich.model() and model.path is None
    assert model.size == len(model.materialize().SerializeToString())


def test_bad_proto_in_memory() -> None:
    with pytest.raises(InputError, match="the model imports no opset"):
        from_proto(no_opset())


@settings(max_examples=150, deadline=None)
@given(st.one_of(st.binary(max_size=300), st.binary().map(lambda data: b"\x08\x08\x3a" + data)))
def test_arbitrary_bytes(data: bytes) -> None:
    loads_or_is_refused(data)


@settings(max_examples=80, deadline=None)
@given(st.data())
def test_damaged_model(data: st.DataObject) -> None:
    whole = bytearray(rich.model().SerializeToString())
    cut = data.draw(st.integers(0, len(whole)))
    for place in data.draw(st.lists(st.integers(0, len(whole) - 1), max_size=3)):
        whole[place] ^= data.draw(st.integers(1, 255))
    loads_or_is_refused(bytes(whole[:cut]))


def loads_or_is_refused(data: bytes) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = written(Path(folder), data)
        try:
            load(path).materialize()
        except InputError as error:
            assert "\n" not in str(error)
