"""The real engine, with one rule and nothing else, on a small model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from onnx import ModelProto

from onnxfuse.match.pattern import Pattern
from onnxfuse.model.editable import EditableModel
from onnxfuse.model.file import from_proto
from onnxfuse.model.opset import raise_opset
from onnxfuse.model.patch import patched
from onnxfuse.rewrite.engine import HigherOpset, rewrite
from onnxfuse.targets import PORTABLE


@dataclass(frozen=True)
class Outcome:
    """What the engine made of a model; `result` None: it changed nothing, for the `reasons` it knows."""

    result: ModelProto | None
    reasons: tuple[str, ...]


def apply(model: ModelProto, patterns: Sequence[Pattern], max_opset: int = PORTABLE.max_opset) -> Outcome:
    """Rewrite a model by the patterns of one rule; its opset is raised, up to `max_opset`, if the rule needs that.

    Raises OpsetError if it cannot be raised.
    """
    start, ceiling = from_proto(model), max_opset
    while True:
        editable = EditableModel(start)
        try:
            trace = rewrite(editable, patterns, steps=frozenset(), max_opset=ceiling)
            break
        except HigherOpset as need:
            start = raise_opset(start, need.opset)
    if not trace.fusions:
        return Outcome(None, tuple(miss.reason for miss in trace.near_misses))
    return Outcome(patched(editable).materialize(), ())
