"""The lines of a rewrite where optional inputs are absent: others stand for them, or lines fall away with them."""

from __future__ import annotations

from collections.abc import Container
from dataclasses import replace

from onnx import defs

from onnxfuse.model import schema
from onnxfuse.rulebook.rule import Rule, TextNode


def present_lines(rule: Rule, present: Container[str]) -> tuple[TextNode, ...]:
    """Return the lines of a rule's rewrite where of its optional inputs only those in `present` are there.

    Lines that compute what stands for an absent one come first.  Where nothing stands for it, an operator that can do
    without it does; what others would compute from it is absent too.
    """
    stand_ins = [node for name, node in rule.absent.items() if name not in present and node is not None]
    missing = {name for name, node in rule.absent.items() if name not in present and node is None}
    lines: list[TextNode] = []
    for line in rule.rewrite.nodes:
        gone = [index for index, name in enumerate(line.inputs) if name in missing]
        if all(_can_be_absent(line, index, rule.rewrite.opset) for index in gone):
            inputs = tuple("" if name in missing else name for name in line.inputs)
            lines.append(replace(line, inputs=inputs) if gone else line)
        else:
            missing.update(line.outputs)
    return (*stand_ins, *lines)


def _can_be_absent(line: TextNode, index: int, opset: int) -> bool:
    found = schema.schema(line.op, opset, line.domain)
    if found is None or index >= len(found.inputs):
        return False
    return bool(found.inputs[index].option == defs.OpSchema.FormalParameterOption.Optional)
