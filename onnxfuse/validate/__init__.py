"""Validation: the original model against the result, both run by onnxruntime."""

from __future__ import annotations

from onnxfuse.validate.check import validate
from onnxfuse.validate.providers import install_warning
from onnxfuse.validate.result import OutputCheck, Run, Validation

__all__ = ["OutputCheck", "Run", "Validation", "install_warning", "validate"]
