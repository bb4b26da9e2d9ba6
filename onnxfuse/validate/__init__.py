"""Validation: the original model against the result, both run by onnxruntime."""

from __future__ import annotations

from onnxfuse.validate.check import Validator, validate
from onnxfuse.validate.providers import install_warning
from onnxfuse.validate.result import OutputCheck, Run, Undone, Validation

__all__ = ["OutputCheck", "Run", "Undone", "Validation", "Validator", "install_warning", "validate"]
