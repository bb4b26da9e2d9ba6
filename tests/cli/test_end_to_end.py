"""The command line on the real pipeline: real models, every kind of bad input, equal bytes from run to run."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.parser
import pytest
from onnx import numpy_helper

from onnxfuse.cli.main import main

_GOLDEN = Path(__file__).parent / "golden"
_SHAPES = {"w": (4, 3, 3, 3), "scale": (4,), "bias": (4,), "mean": (4,), "var": (4,)}


def _net(opset: int = 17) -> onnx.ModelProto:
    """Conv and BatchNormalization with weights that are the same on every machine."""
    model = onnx.parser.parse_model(f"""
    <ir_version: 8, opset_import: ["" : {opset}]>
    net (float[N,3,8,8] x) => (float[N,4,6,6] y) {{
        [conv] c = Conv (x, w)
        [norm] y = BatchNormalization (c, scale, bias, mean, var)
    }}
    """)
    for name, shape in _SHAPES.items():
        count = int(np.prod(shape))
        values = (np.arange(count, dtype=np.float32) % 7 + 1) / 4
        model.graph.initializer.append(numpy_helper.from_array(values.reshape(shape), name))
    return model


@pytest.fixture
def net(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory, with net.onnx in it."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "net.onnx").write_bytes(_net().SerializeToString())
    return tmp_path


def test_a_model_is_fused_validated_and_written(net: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["optimize", "net.onnx", "--provider", "cpu"]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    assert "Conv 'conv' + BatchNormalization 'norm' -> Conv" in out
    assert out.splitlines()[-1].startswith(
        "+ net.onnx -> net.opt.onnx: optimized, 1 fusion, 2 -> 1 nodes, validated on"
    )
    assert [node.op_type for node in onnx.load("net.opt.onnx").graph.node] == ["Conv"]


def test_dry_run_writes_no_model(net: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["optimize", "net.onnx", "--dry-run"]) == 0
    assert "nothing written" in capsys.readouterr().out
    assert [path.name for path in net.iterdir()] == ["net.onnx"]


def test_in_place_replaces_the_model(net: Path) -> None:
    assert main(["optimize", "net.onnx", "--in-place", "-q"]) == 0
    assert [node.op_type for node in onnx.load("net.onnx").graph.node] == ["Conv"]
    assert [path.name for path in net.iterdir()] == ["net.onnx"]


def test_select_and_ignore(net: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["optimize", "net.onnx", "--ignore", "conv-*", "-q"]) == 0
    assert "unchanged" in capsys.readouterr().out
    assert Path("net.opt.onnx").read_bytes() == Path("net.onnx").read_bytes()


def _masked(report: dict[str, Any]) -> dict[str, Any]:
    """The report without what differs from one installation to the next."""
    report["tool"] = dict.fromkeys(report["tool"], "...")
    report["model"]["sha256"] = "..."
    return report


def test_json_report_is_as_committed(net: Path) -> None:
    """Without validation no figure depends on the machine. ONNXFUSE_BLESS=1 accepts what is written now."""
    assert main(["optimize", "net.onnx", "--no-validate", "--report", "json:report.json"]) == 0
    report = _masked(json.loads(Path("report.json").read_text()))
    file = _GOLDEN / "conv_batchnorm.json"
    if os.environ.get("ONNXFUSE_BLESS"):
        file.parent.mkdir(exist_ok=True)
        file.write_text(json.dumps(report, indent=2, sort_keys=True) + "\n")
    assert report == json.loads(file.read_text())


def test_json_report_of_a_validation(net: Path) -> None:
    assert main(["optimize", "net.onnx", "--provider", "cpu", "--seed", "5", "--report", "json:report.json"]) == 0
    report = json.loads(Path("report.json").read_text(), parse_constant=pytest.fail)
    validation = report["validation"]
    assert validation["provider"] == "CPUExecutionProvider"
    assert {run["ort_optimizations"] for run in validation["runs"]} == {"off", "all"}
    assert len({tuple(run["shapes"]["x"]) for run in validation["runs"]}) >= 2, "N is dynamic: two sizes at least"
    for run in validation["runs"]:
        assert [check["name"] for check in run["outputs"]] == ["y"]
        assert all(check["ok"] and check["max_abs"] <= check["tolerance"] for check in run["outputs"])
    assert (report["verdict"], report["validated"]) == ("optimized", True)


def test_equal_bytes_from_run_to_run_and_for_every_hash_seed(net: Path) -> None:
    """Both the model and its reports."""
    seen = set()
    for hash_seed in ("0", "0", "4711"):
        command = [sys.executable, "-m", "onnxfuse", "optimize", "net.onnx", "--provider", "cpu"]
        command += ["--report", "json:r.json", "--report", "text:r.txt"]
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
        subprocess.run(command, env=environment, check=True, capture_output=True, timeout=120)
        seen.add(tuple(Path(name).read_bytes() for name in ("net.opt.onnx", "r.json", "r.txt")))
    assert len(seen) == 1


def _external(location: str) -> bytes:
    """The net with the weight of its Conv in a file that is not there."""
    model = _net()
    weight = model.graph.initializer[0]
    weight.ClearField("raw_data")
    weight.data_location = onnx.TensorProto.EXTERNAL
    weight.external_data.add(key="location", value=location)
    return bytes(model.SerializeToString())


_POINTER = "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n"

_BAD_MODELS: dict[str, tuple[Callable[[], bytes], str]] = {
    "empty": (lambda: b"", "empty"),
    "text": (lambda: b"# a model\n\nThis is a readme, not a model.\n" * 20, ""),
    "lfs": (lambda: _POINTER.encode(), "LFS"),
    "truncated": (lambda: _net().SerializeToString()[:-100], ""),
    "opset": (lambda: _net(opset=999).SerializeToString(), "999"),
    "no-data": (lambda: _external("weights.bin"), "weights.bin"),
    "data-outside": (lambda: _external("../weights.bin"), "../weights.bin"),
    "data-absolute": (lambda: _external("/tmp/weights.bin"), "/tmp/weights.bin"),
}


def _assert_refused(
    folder: Path, capsys: pytest.CaptureFixture[str], args: list[str], words: str, code: int = 2
) -> None:
    before = sorted(folder.rglob("*"))
    assert main(["optimize", *args]) == code
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("error: ") and err.count("\n") == 1, err
    assert "Traceback" not in err and "bug" not in err
    assert words in err
    assert sorted(folder.rglob("*")) == before


@pytest.mark.parametrize("validate", ["--validate", "--no-validate"])
@pytest.mark.parametrize("kind", _BAD_MODELS)
def test_a_bad_model_is_one_line_and_2(net: Path, capsys: pytest.CaptureFixture[str], kind: str, validate: str) -> None:
    content, words = _BAD_MODELS[kind]
    Path("bad.onnx").write_bytes(content())
    _assert_refused(net, capsys, ["bad.onnx", "-o", "new/", "--report", "json:r.json", validate], words)


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["missing.onnx"], "missing.onnx"),
        (["folder"], "no .onnx file"),
        (["net.onnx", "-o", "net.onnx"], "--in-place"),
        (["net.onnx", "-o", "net.onnx/out.onnx"], "net.onnx/out.onnx"),
        (["net.onnx", "-o", "missing/out.onnx"], "missing"),
        (["net.onnx", "--select", "conv-batchnrom"], "conv-batchnorm"),
        (["net.onnx", "--ignore", "conv-batchnrom"], "conv-batchnorm"),
        (["net.onnx", "--select", "zzz-*"], "zzz-*"),
        (["net.onnx", "--rules", "missing.toml"], "missing.toml"),
        (["net.onnx", "--rules", "broken.toml"], "broken.toml:2:"),
        (["net.onnx", "--opset", "999"], "999"),
    ],
)
def test_a_wrong_call_is_one_line_and_2(
    net: Path, capsys: pytest.CaptureFixture[str], args: list[str], words: str
) -> None:
    Path("folder").mkdir()
    Path("broken.toml").write_text('name = "broken"\nsummary = \n')
    _assert_refused(net, capsys, args, words)


def test_cuda_where_there_is_none_is_2(
    net: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from onnxfuse.validate import providers

    monkeypatch.setattr(providers, "cuda_obstacle", lambda: "no CUDA device")
    _assert_refused(net, capsys, ["net.onnx", "--provider", "cuda"], "CUDA")


def test_an_original_that_does_not_run_is_1(net: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = _net()
    model.graph.node.add(op_type="Custom", domain="unknown.custom", input=["y"], output=["z"])
    model.opset_import.add(domain="unknown.custom", version=1)
    model.graph.output[0].name = "z"
    Path("custom.onnx").write_bytes(model.SerializeToString())
    _assert_refused(net, capsys, ["custom.onnx"], "--no-validate", code=1)
    assert main(["optimize", "custom.onnx", "--no-validate"]) == 0
    assert [node.op_type for node in onnx.load("custom.opt.onnx").graph.node] == ["Conv", "Custom"]


def test_a_tolerance_that_no_rounding_meets_is_1(net: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A true mismatch: folding the weights rounds differently, and a tolerance of 0 forgives nothing."""
    args = ["optimize", "net.onnx", "--provider", "cpu", "--rtol", "0", "--atol", "0", "--report", "json:r.json"]
    assert main([*args, "--on-mismatch", "fail"]) == 1
    out, err = capsys.readouterr()
    assert out.splitlines()[-1].startswith("! net.onnx: mismatch, output 'y'")
    assert err.startswith("error: net.onnx") and err.count("\n") == 1 and "'y'" in err
    assert json.loads(Path("r.json").read_text())["verdict"] == "mismatch"
    assert not Path("net.opt.onnx").exists()
    assert main(args) == 0
    assert "! undone conv-batchnorm" in capsys.readouterr().out
    assert Path("net.opt.onnx").read_bytes() == Path("net.onnx").read_bytes()
