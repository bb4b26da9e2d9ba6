"""Proving rules: both sides run on onnxruntime, the engine tried on what must match and on what must not."""

from onnxfuse.prove.result import FormProof, Problem, RuleProof, Verification
from onnxfuse.prove.verify import verify

__all__ = ["FormProof", "Problem", "RuleProof", "Verification", "verify"]
