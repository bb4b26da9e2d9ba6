"""A text of a rule as a diagram: leaves (inputs and numbers) and boxes (operators) between values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from onnx import AttributeProto, TensorProto, numpy_helper

from onnxfuse.model.attributes import Attribute
from onnxfuse.rulebook.fold import computed_from
from onnxfuse.rulebook.rule import FORM, Bound, ConstantSpec, Rule, Text, TextNode


@dataclass(frozen=True)
class Leaf:
    """Where a diagram begins: an input of the rule, or a number written in the text."""

    name: str
    caption: str
    is_input: bool


@dataclass(frozen=True)
class Box:
    """An operator, or a call of a form.  `folded`: it is computed once, when the rule is applied."""

    caption: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    folded: bool


@dataclass(frozen=True)
class Diagram:
    """One text of a rule; `outputs` are the values that it gives, `derived` those that become attributes."""

    leaves: Mapping[str, Leaf]
    boxes: tuple[Box, ...]
    outputs: tuple[str, ...]
    derived: Mapping[str, str]

    @property
    def ends(self) -> dict[str, str]:
        """Captions and values of all that the text gives: outputs, then attributes."""
        return {name: name for name in self.outputs} | {f"@{name}": value for name, value in self.derived.items()}


def diagram(text: Text, rule: Rule | None = None) -> Diagram:
    """Draw a match text, the rewrite of a rule, or (without a rule) a spelling of a form."""
    is_rewrite = rule is not None and text is rule.rewrite
    leaves = {name: Leaf(name, name, is_input=True) for name in text.inputs}
    numbers = [node for node in text.nodes if node.op == "Constant" and not node.domain]
    leaves |= {node.outputs[0]: Leaf(node.outputs[0], _number(node, text), is_input=False) for node in numbers}
    folded = _folded(text, rule) if is_rewrite and rule is not None else frozenset()
    boxes = tuple(
        Box(caption(node), node.inputs, node.outputs, bool(folded) and folded.issuperset(node.outputs))
        for node in text.nodes
        if node not in numbers
    )
    return Diagram(leaves, boxes, text.outputs, rule.derive if is_rewrite and rule is not None else {})


def _folded(text: Text, rule: Rule) -> frozenset[str]:
    return computed_from(text.nodes, [name for name, guard in rule.inputs.items() if guard.const])


def _number(node: TextNode, text: Text) -> str:
    ((_, value),) = node.attributes.items()
    spec = text.constants.get(node.outputs[0], ConstantSpec())
    shown = attribute(spec.value if spec.value is not None else value)
    return f"{shown} within {spec.rtol:g}" if spec.rtol is not None else shown


def caption(node: TextNode) -> str:
    """Return an operator with the attributes that its line states: `Cast <to = @wide>`."""
    name = f"{node.domain}.{node.op}" if node.domain else node.op
    stated = ", ".join(f"{key} = {attribute(value)}" for key, value in node.attributes.items())
    label = f"[{node.label}] " if node.label else ""
    return f"{label}{name} <{stated}>" if stated and node.domain != FORM else label + name


def attribute(value: Attribute | Bound | object) -> str:
    """Return the value of an attribute as ONNX text would have it, numbers as short as they can be."""
    if isinstance(value, Bound):
        return f"@{value.name}"
    if isinstance(value, AttributeProto):
        return _tensor(value.t) if value.type == AttributeProto.TENSOR else "..."
    if isinstance(value, tuple | list):
        return "[" + ", ".join(map(attribute, value)) + "]"
    if isinstance(value, float):
        return f"{np.float32(value):.9g}" if float(np.float32(value)) == value else repr(value)
    if isinstance(value, bytes):
        value = value.decode("utf-8", errors="replace")
    return f'"{value}"' if isinstance(value, str) else str(value)


def _tensor(tensor: TensorProto) -> str:
    array = numpy_helper.to_array(tensor)
    return attribute(array.tolist()) if array.size <= 16 else f"a tensor of {array.size} elements"
