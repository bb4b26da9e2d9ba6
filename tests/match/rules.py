"""One rule at a time on one graph: how often it is applied, and what its near misses say."""

from __future__ import annotations

import tempfile
from pathlib import Path

from onnx import ModelProto

from onnxfuse.match.pattern import compile_patterns
from onnxfuse.model.editable import EditableModel
from onnxfuse.model.file import from_proto
from onnxfuse.rewrite.engine import rewrite as rewrite_model
from onnxfuse.rulebook.load import load_rulebook

from ..helpers import rule_file

EVERY = "opset = 18\nalso = [1, 6, 7, 8, 9, 11, 13, 14]\n"


def tried(
    proto: ModelProto, match: str, inputs: str = 'x = "T"', *, head: str = EVERY, rewrite: str = ""
) -> tuple[int, list[str]]:
    """Apply one rule, alone and without clean-up, and return how often it was applied, and its near misses.

    Without `rewrite` the rule gives the Softsign of its first input.
    """
    signature, _, _ = match.partition("{")
    first = signature.strip()[1:].split(",")[0].split(")")[0].strip()
    rewrite = rewrite or f"{signature} {{ y = Softsign ({first}) }}"
    with tempfile.TemporaryDirectory() as folder:
        path = rule_file(Path(folder), match, rewrite, inputs, head=head)
        book = load_rulebook([path], builtin=False)
    trace = rewrite_model(EditableModel(from_proto(proto)), compile_patterns(book), steps=frozenset(), max_opset=0)
    return len(trace.fusions), [miss.reason for miss in trace.near_misses]
