"""Saving and copying: whole, where asked, and never over what is still needed."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import onnx
import pytest
from onnx import ModelProto, TensorProto, helper

from onnxfuse.errors import InputError, InternalError, OutputError
from onnxfuse.model import save as saving
from onnxfuse.model.file import ModelFile, from_proto, load
from onnxfuse.model.save import copy, save
from onnxfuse.model.weights import writer

from . import rich

Make = Callable[[Path], Path]
Write = Callable[[ModelFile, Path], None]
SIZES = {"large": 50_000, "medium": 3000, "tied": 3000, "small": 2}


def proto() -> ModelProto:
    """Return a model with weights of several sizes, two of them equal."""
    weights = [rich.tensor(name, size, seed=size) for name, size in SIZES.items()]
    imports = [helper.make_opsetid("", 17)]
    return helper.make_model(helper.make_graph([], "g", [], [], weights), opset_imports=imports, ir_version=8)


def external(folder: Path, location: str = "w.bin") -> Path:
    """Write the model with all weights external but the small one, "tied" being the same bytes as "medium"."""
    folder.mkdir(exist_ok=True)
    model = proto()
    data = b""
    for tensor in model.graph.initializer[:2]:
        point(tensor, location, len(data), len(tensor.raw_data))
        data += tensor.raw_data
        tensor.ClearField("raw_data")
    tied = model.graph.initializer[2]
    tied.ClearField("raw_data")
    point(tied, location, 4 * SIZES["large"], 4 * SIZES["tied"])
    (folder / location).write_bytes(data)
    onnx.save(model, folder / "m.onnx")
    return folder / "m.onnx"


def point(tensor: TensorProto, location: str, offset: int, length: int) -> None:
    tensor.data_location = TensorProto.EXTERNAL
    for key, value in (("location", location), ("offset", str(offset)), ("length", str(length)), ("checksum", "ab")):
        tensor.external_data.add(key=key, value=value)


def inline(folder: Path) -> Path:
    folder.mkdir(exist_ok=True)
    onnx.save(proto(), folder / "m.onnx")
    return folder / "m.onnx"


def changed(model: ModelFile) -> ModelFile:
    """Return the model with another doc string."""
    copied = ModelProto()
    copied.CopyFrom(model.proto)
    copied.doc_string = "changed"
    return model.with_proto(copied)


def weights(path: Path) -> dict[str, bytes]:
    return {tensor.name: tensor.raw_data for tensor in onnx.load(path).graph.initializer}


WEIGHTS = {tensor.name: tensor.raw_data for tensor in proto().graph.initializer}


def files(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


@pytest.fixture
def out(tmp_path: Path) -> Path:
    folder = tmp_path / "out"
    folder.mkdir()
    return folder


def test_inline_stays_inline(tmp_path: Path, out: Path) -> None:
    save(changed(load(inline(tmp_path))), out / "n.onnx")
    assert files(out) == {"n.onnx"}
    assert onnx.load(out / "n.onnx").doc_string == "changed" and weights(out / "n.onnx") == WEIGHTS


def test_external_stays_external(tmp_path: Path, out: Path) -> None:
    save(changed(load(external(tmp_path))), out / "n.onnx")
    assert files(out) == {"n.onnx", "n.onnx.data"} and weights(out / "n.onnx") == WEIGHTS
    stored = {t.name: {e.key: e.value for e in t.external_data}
              for t in onnx.load(out / "n.onnx", load_external_data=False).graph.initializer}  # fmt: skip
    assert all(entry["location"] == "n.onnx.data" for name, entry in stored.items() if name != "small")
    assert stored["small"] == {} and "checksum" not in stored["large"]
    assert int(stored["large"]["offset"]) % 4096 == 0 and int(stored["medium"]["offset"]) % 64 == 0
    assert stored["tied"] == stored["medium"]
    assert (out / "n.onnx.data").stat().st_size < 4 * (SIZES["large"] + SIZES["medium"]) + 4096


def test_new_weights_of_an_external_model_become_external(tmp_path: Path, out: Path) -> None:
    model = changed(load(external(tmp_path)))
    model.proto.graph.initializer.append(rich.tensor("new"))
    save(model, out / "n.onnx")
    saved = onnx.load(out / "n.onnx", load_external_data=False)
    assert saved.graph.initializer[-1].data_location == TensorProto.EXTERNAL
    assert weights(out / "n.onnx") == WEIGHTS | {"new": rich.tensor("new").raw_data}


def test_weights_go_to_a_data_file_above_the_limit(tmp_path: Path, out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(saving, "MAX_MODEL_BYTES", 100_000)
    model = changed(load(inline(tmp_path)))
    model.proto.graph.initializer.append(rich.tensor("new"))
    save(model, out / "n.onnx")
    assert files(out) == {"n.onnx", "n.onnx.data"} and (out / "n.onnx").stat().st_size < 1000
    assert weights(out / "n.onnx") == WEIGHTS | {"new": rich.tensor("new").raw_data}
    monkeypatch.setattr(saving, "MAX_MODEL_BYTES", 10)
    with pytest.raises(OutputError, match="above 2 GiB"):
        save(model, out / "o.onnx")


def test_model_in_memory(tmp_path: Path, out: Path) -> None:
    save(from_proto(proto()), out / "n.onnx")
    assert onnx.load(out / "n.onnx") == proto()
    save(from_proto(onnx.load(external(tmp_path), load_external_data=False), tmp_path), out / "e.onnx")
    assert weights(out / "e.onnx") == WEIGHTS


@pytest.mark.parametrize("make", [inline, external])
def test_in_place_and_again(tmp_path: Path, make: Make) -> None:
    path = make(tmp_path)
    model = changed(load(path))
    for _ in range(2):
        save(model, path)
        assert weights(path) == WEIGHTS
    save(changed(load(path)), path)
    assert weights(path) == WEIGHTS


def test_in_place_over_its_own_data_file(tmp_path: Path) -> None:
    path = external(tmp_path, "m.onnx.data")
    save(changed(load(path)), path)
    assert files(tmp_path) == {"m.onnx", "m.onnx.data"} and weights(path) == WEIGHTS


def test_data_file_of_the_input_is_not_overwritten(tmp_path: Path) -> None:
    path = external(tmp_path, "n.onnx.data")
    save(changed(load(path)), tmp_path / "n.onnx")
    assert weights(path) == WEIGHTS and weights(tmp_path / "n.onnx") == WEIGHTS
    for write in (save, copy):
        with pytest.raises(OutputError, match="holds the weights of the input"):
            write(load(path), tmp_path / "n.onnx.data")
    assert weights(path) == WEIGHTS


def test_output_through_a_link_to_the_input(tmp_path: Path) -> None:
    path = inline(tmp_path)
    (tmp_path / "link.onnx").symlink_to(path)
    save(changed(load(path)), tmp_path / "link.onnx")
    assert weights(path) == WEIGHTS and weights(tmp_path / "link.onnx") == WEIGHTS
    assert not onnx.load(path).doc_string


def test_permissions_are_those_of_any_new_file_or_of_the_old_one(tmp_path: Path, out: Path) -> None:
    model = load(inline(tmp_path))
    (out / "any").touch()
    save(model, out / "n.onnx")
    assert (out / "n.onnx").stat().st_mode == (out / "any").stat().st_mode
    (out / "n.onnx").chmod(0o640)
    save(model, out / "n.onnx")
    assert (out / "n.onnx").stat().st_mode & 0o777 == 0o640


@pytest.mark.parametrize("write", [save, copy])
def test_bad_outputs(tmp_path: Path, out: Path, write: Write) -> None:
    model = load(external(tmp_path / "in"))
    with pytest.raises(OutputError, match="is a folder"):
        write(model, out)
    with pytest.raises(OutputError, match="does not exist"):
        write(model, out / "none" / "n.onnx")
    with pytest.raises(OutputError, match="not a regular file"):
        write(model, Path(os.devnull))
    with pytest.raises(OutputError):
        write(model, out / ("n" * 300))
    assert files(out) == set()


@pytest.mark.skipif(os.name == "nt" or os.geteuid() == 0, reason="needs a user whom permissions bind")
def test_unwritable_folder_and_file(tmp_path: Path, out: Path) -> None:
    model = load(inline(tmp_path))
    (out / "n.onnx").touch(0o444)
    with pytest.raises(OutputError, match="write-protected"):
        save(model, out / "n.onnx")
    out.chmod(0o555)
    with pytest.raises(OutputError, match="cannot be written"):
        save(model, out / "o.onnx")


def test_folder_where_the_data_file_must_go(tmp_path: Path, out: Path) -> None:
    (out / "n.onnx.data").mkdir()
    with pytest.raises(OutputError, match="is a folder"):
        save(changed(load(external(tmp_path))), out / "n.onnx")
    assert files(out) == {"n.onnx.data"}


def test_second_rename_fails(tmp_path: Path, out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = load(external(tmp_path / "in"))
    original = os.replace

    def replace(source: Path, target: Path) -> None:
        if target.name == "n.onnx":
            raise OSError(1, "Operation not permitted")
        original(source, target)

    monkeypatch.setattr(os, "replace", replace)
    with pytest.raises(OutputError, match="not permitted"):
        save(model, out / "n.onnx")
    assert files(out) == set()
    (out / "n.onnx.data").write_bytes(b"old")
    with pytest.raises(OutputError, match="not permitted"):
        save(model, out / "n.onnx")
    assert files(out) == {"n.onnx.data"} and (out / "n.onnx.data").read_bytes() == b"old"


class Stop(BaseException):
    """Stands for an interrupt."""


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), Stop()])
@pytest.mark.parametrize("write", [save, copy])
def test_failure_leaves_nothing(
    tmp_path: Path, out: Path, write: Write, error: BaseException, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = writer._write_piece
    left = iter(range(3))

    def fail(*args: object) -> None:
        if next(left, None) is None:
            raise error
        original(*args)  # type: ignore[arg-type]

    monkeypatch.setattr(writer, "_write_piece", fail)
    (out / "n.onnx").write_bytes(b"old")
    path = external(tmp_path / "in", "sub.bin")
    left = iter(range(1))
    with pytest.raises((OutputError, Stop)):
        write(load(path), out / "n.onnx")
    assert files(out) == {"n.onnx"} and (out / "n.onnx").read_bytes() == b"old"


def test_input_that_changes_while_in_use(tmp_path: Path, out: Path) -> None:
    path = inline(tmp_path)
    model = load(path)
    data = path.read_bytes()
    with path.open("r+b") as file:
        file.write(data[:-1])
    os.utime(path, ns=(1, 1))
    for write in (save, copy):
        with pytest.raises(InputError, match="changed while"):
            write(model, out / "n.onnx")
    assert files(out) == set()


@pytest.fixture(params=["ranges", "chunks", "half"])
def how(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Let the system copy between files, or refuse it, or stop half way."""
    refusals = {"chunks": 0, "half": 60_000}
    if request.param in refusals and hasattr(os, "copy_file_range"):
        original, left = os.copy_file_range, [refusals[request.param]]

        def limited(source: int, target: int, count: int, offset: int) -> int:
            if not left[0]:
                raise OSError(18, "Invalid cross-device link")
            done = original(source, target, min(count, left[0]), offset)
            left[0] -= done
            return done

        monkeypatch.setattr(os, "copy_file_range", limited)
    yield request.param


@pytest.mark.usefixtures("how")
@pytest.mark.parametrize("make", [inline, external])
def test_every_way_of_copying(tmp_path: Path, out: Path, make: Make) -> None:
    save(changed(load(make(tmp_path))), out / "n.onnx")
    assert weights(out / "n.onnx") == WEIGHTS
    copy(load(make(tmp_path)), out / "c.onnx")
    assert weights(out / "c.onnx") == WEIGHTS


def test_copy_is_the_same_bytes(tmp_path: Path, out: Path) -> None:
    path = inline(tmp_path)
    with path.open("ab") as file:
        file.write(rich.UNKNOWN_FIELD + b"\x08\x08")
    copy(load(path), out / "n.onnx")
    assert (out / "n.onnx").read_bytes() == path.read_bytes() and files(out) == {"n.onnx"}


def test_copy_takes_the_data_along(tmp_path: Path, out: Path) -> None:
    (tmp_path / "in" / "deep").mkdir(parents=True)
    path = external(tmp_path / "in", "deep/w.bin")
    for _ in range(2):
        copy(load(path), out / "n.onnx")
        assert (out / "n.onnx").read_bytes() == path.read_bytes() and weights(out / "n.onnx") == WEIGHTS
    assert files(out) == {"n.onnx", "deep"} and files(out / "deep") == {"w.bin"}


def test_copy_leaves_other_data_alone(tmp_path: Path, out: Path) -> None:
    path = external(tmp_path / "in")
    for other in (b"other", bytes((tmp_path / "in" / "w.bin").stat().st_size)):
        (out / "w.bin").write_bytes(other)
        copy(load(path), out / "n.onnx")
        assert (out / "w.bin").read_bytes() == other
        assert files(out) == {"n.onnx", "n.onnx.data", "w.bin"} and weights(out / "n.onnx") == WEIGHTS


def test_copy_to_the_name_of_its_data(tmp_path: Path, out: Path) -> None:
    copy(load(external(tmp_path / "in")), out / "w.bin")
    assert files(out) == {"w.bin", "w.bin.data"} and weights(out / "w.bin") == WEIGHTS


def test_copy_within_the_folder(tmp_path: Path) -> None:
    path = external(tmp_path)
    copy(load(path), path)
    copy(load(path), tmp_path / "n.onnx")
    assert files(tmp_path) == {"m.onnx", "n.onnx", "w.bin"} and weights(tmp_path / "n.onnx") == WEIGHTS


def test_copy_out_of_a_download_cache(tmp_path: Path, out: Path) -> None:
    external(tmp_path / "blobs")
    os.rename(tmp_path / "blobs" / "w.bin", tmp_path / "blobs" / "b2")
    (tmp_path / "snapshot").mkdir()
    (tmp_path / "snapshot" / "m.onnx").symlink_to("../blobs/m.onnx")
    (tmp_path / "snapshot" / "w.bin").symlink_to("../blobs/b2")
    copy(load(tmp_path / "snapshot" / "m.onnx"), out / "n.onnx")
    assert files(out) == {"n.onnx", "w.bin"} and weights(out / "n.onnx") == WEIGHTS


def test_only_loaded_models_can_be_copied(tmp_path: Path, out: Path) -> None:
    for model in (from_proto(proto()), changed(load(inline(tmp_path)))):
        with pytest.raises(InternalError):
            copy(model, out / "n.onnx")
