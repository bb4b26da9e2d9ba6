"""Flattening a model before it is rewritten: rules see more of a graph than of the bodies it is cut into."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Set

from onnx import ModelProto

from onnxfuse.model.editable import EditableModel
from onnxfuse.model.file import ModelFile
from onnxfuse.model.graph import subgraphs
from onnxfuse.rewrite import steps as names_of
from onnxfuse.rewrite.flatten.branches import take_branches
from onnxfuse.rewrite.flatten.functions import inline_calls
from onnxfuse.rewrite.flatten.loops import unroll
from onnxfuse.rewrite.flatten.names import Body, Names
from onnxfuse.rewrite.trace import Fusion

_PASSES: dict[str, tuple[str, Callable[[EditableModel, Names], Iterator[Fusion]]]] = {
    names_of.CONSTANT_IF: ("If", take_branches),
    names_of.LOOP_UNROLLING: ("Loop", unroll),
}


def flatten(
    file: ModelFile, steps: Set[str], matched: Collection[tuple[str, str]] = ()
) -> tuple[ModelFile, list[Fusion]]:
    """Return a model without the local functions, constant Ifs and short Loops that can go, and the records.

    `steps`: those that may be taken.  `matched`: operators (domain, name) that rules match; functions of such names
    stay.  The file is returned as it is if there is nothing to do.
    """
    fusions: list[Fusion] = []
    if names_of.FUNCTION_INLINING in steps and file.proto.functions:
        proto = ModelProto()
        proto.CopyFrom(file.proto)
        fusions += inline_calls(proto, matched)
        file = file.with_proto(proto) if fusions else file
    while done := _one_pass(file, steps):
        file = file.with_proto(done[0])
        fusions += done[1]
    return file, fusions


def _one_pass(file: ModelFile, steps: Set[str]) -> tuple[ModelProto, list[Fusion]] | None:
    """Take the first step that finds something; the model must be read anew, and its types inferred, after each."""
    present = {op for body in (file.proto.graph, *file.proto.functions) for op in _operators(body)}
    passes = [run for step, (op, run) in _PASSES.items() if step in steps and op in present]
    if not passes:
        return None
    model = EditableModel(file)
    for run in passes:
        fusions = list(run(model, Names(model.proto)))
        if fusions:
            return model.proto, fusions
    return None


def _operators(body: Body) -> Iterator[str]:
    for node in body.node:
        yield node.op_type
        for _, graph in subgraphs(node):
            yield from _operators(graph)
