"""The record holds what the JSON report promises, under the promised names."""

from __future__ import annotations

import json
import os
from pathlib import Path

import onnx.parser
import pytest

import onnxfuse
from onnxfuse.report import ModelRecord, Report, strict_json
from tests.report.samples import mismatch, report, validation

_GOLDEN = Path(__file__).parent / "golden"

_MODEL = onnx.parser.parse_model("""
<ir_version: 8, opset_import: ["" : 17]>
main (float[N] x) => (float[N] y) { a = Identity (x)  y = Relu (a) }
""")


@pytest.mark.parametrize(("name", "made"), [("optimized", report()), ("mismatch", mismatch())])
def test_json_is_as_committed(name: str, made: Report, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run with ONNXFUSE_BLESS=1 to accept what the code writes now; then read the difference."""
    monkeypatch.setattr(onnxfuse, "__version__", "1.2.3")
    file = _GOLDEN / f"{name}.json"
    if os.environ.get("ONNXFUSE_BLESS"):
        file.write_text(made.to_json())
    assert made.to_json() == file.read_text()


def test_json_is_the_dict() -> None:
    assert json.loads(report().to_json()) == json.loads(strict_json.dumps(report().to_dict()))


def test_no_figure_is_a_bare_token() -> None:
    made = report(validation=validation(float("inf"), ok=False))
    check = json.loads(made.to_json(), parse_constant=pytest.fail)["validation"]["runs"][0]["outputs"][0]
    assert check["max_abs"] == "Infinity"


def _record(after: onnx.ModelProto, path: str | Path | None = "some/net.onnx") -> ModelRecord:
    return ModelRecord.of(
        _MODEL, after, path=path, sha256="00", output=Path("out") / "net.onnx", bytes_before=10, bytes_after=None
    )


def test_model_is_described_before_and_after() -> None:
    after = onnx.parser.parse_model("""
    <ir_version: 8, opset_import: ["" : 18]>
    main (float[N] x) => (float[N] y) { y = Relu (x) }
    """)
    assert _record(after).to_dict() == {
        "path": "some/net.onnx",
        "sha256": "00",
        "output": "out/net.onnx",
        "opset": {"before": 17, "after": 18},
        "nodes": {"before": 2, "after": 1},
        "ops": {"before": {"Identity": 1, "Relu": 1}, "after": {"Relu": 1}},
        "bytes": {"before": 10, "after": None},
    }


def test_model_in_memory_has_no_path() -> None:
    assert _record(_MODEL, path=None).to_dict()["path"] is None


@pytest.mark.parametrize(
    ("changed", "ok", "verdict", "validated"),
    [
        (True, True, "optimized", True),
        (True, None, "optimized", False),
        (False, None, "unchanged", False),
        (True, False, "mismatch", False),
    ],
)
def test_verdict(changed: bool, ok: bool | None, verdict: str, validated: bool) -> None:
    done = None if ok is None else validation(ok=ok)
    made = Report.of(_record(_MODEL), validation=done, changed=changed)
    assert (made.verdict, made.validated) == (verdict, validated)


def test_onnxruntime_has_no_version_where_nothing_ran() -> None:
    assert Report.of(_record(_MODEL), changed=False).tool.onnxruntime is None


def test_onnx_version_is_that_of_the_module() -> None:
    assert Report.of(_record(_MODEL), changed=False).tool.onnx == onnx.__version__
