"""The gate of a CI step: a policy, and what it finds in the report of optimizing a model."""

from onnxfuse.gate.baseline import Baseline
from onnxfuse.gate.policy import FAIL_ON, KINDS, Policy

__all__ = ["FAIL_ON", "KINDS", "Baseline", "Policy"]
