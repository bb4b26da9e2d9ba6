"""Proving rules: both sides run on onnxruntime, the engine tried on what must match and on what must not."""

from onnxfuse.prove.forms import prove_form
from onnxfuse.prove.result import FormProof, Problem, RuleProof, Verification
from onnxfuse.prove.verify import verify, verify_rule

__all__ = ["FormProof", "Problem", "RuleProof", "Verification", "prove_form", "verify", "verify_rule"]
