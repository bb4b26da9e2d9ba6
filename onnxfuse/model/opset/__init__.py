"""Raising a model to a newer opset without losing anything.

``onnx.version_converter`` loses metadata, adds value infos, does not look into functions, takes 5 ms even for one node,
and is silently wrong for some operators (Resize-10 and Upsample lose their coordinate mode, Hardmax-12 its flattening,
GroupNormalization-18 keeps its per-group scale). So nodes are kept as they are wherever the newer schema means the
same, and changed one by one, by adapters.py, where it does not.
"""

from onnxfuse.model.opset.raising import raise_opset

__all__ = ["raise_opset"]
