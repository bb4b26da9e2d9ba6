"""Match texts made ready for searching: which lines can give each name, what its constants ask for, where to start."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
from onnx import AttributeProto, TensorProto, numpy_helper

from onnxfuse.errors import RuleError
from onnxfuse.model import schema
from onnxfuse.model.attributes import Attribute, constant_tensor
from onnxfuse.rulebook.rule import FORM, Bound, ConstantSpec, Rule, Rulebook, Text, TextNode


@dataclass(frozen=True)
class Literal:
    """A constant that the match text spells out: one number, or a list of whole numbers."""

    value: float | tuple[int, ...]
    rtol: float | None = None


@dataclass(frozen=True)
class Capture:
    """A constant whose value becomes an attribute of the rule: `Constant <value_float: float = @epsilon>`."""

    attribute: str
    kind: str


ConstantPattern: TypeAlias = Literal | Capture


@dataclass(frozen=True)
class Pattern:
    """One match text of a rule.

    `producers`: for each name that lines of the text give, the lines that can give it (several for a form).
    `constants`: the names that are constants of the text.  `needs`: for each line, which of its inputs another line
    gives, with the (domain, operator) pairs that can give it.
    """

    rule: Rule
    name: str
    opset: int
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    producers: Mapping[str, tuple[TextNode, ...]]
    constants: Mapping[str, ConstantPattern]
    needs: Mapping[TextNode, tuple[tuple[int, frozenset[tuple[str, str]]], ...]]

    @property
    def roots(self) -> frozenset[tuple[str, str]]:
        """The (domain, operator) pairs that can give the first output."""
        return frozenset((node.domain, node.op) for node in self.producers[self.outputs[0]])

    def __hash__(self) -> int:
        return id(self)


def compile_patterns(book: Rulebook) -> tuple[Pattern, ...]:
    """Return the patterns of all rules, in the order in which they are to be tried."""
    return tuple(_compile(rule, text, book) for rule in book.rules for text in rule.matches)


def _compile(rule: Rule, text: Text, book: Rulebook) -> Pattern:
    producers: dict[str, tuple[TextNode, ...]] = {}
    constants: dict[str, ConstantPattern] = {}
    for node, spec in _expand(text, book, ""):
        if node.op == "Constant" and not node.domain:
            constants[node.outputs[0]] = _constant(node, spec)
            continue
        node = _modernised(node, text.opset, constants)
        for output in node.outputs:
            producers[output] = (*producers.get(output, ()), node)
    names = {**producers, **constants}
    for output in text.outputs:
        if output not in producers:
            raise RuleError(f"{rule.path}: text '{text.name}': no line gives the output '{output}'")
    for node in (n for alternatives in producers.values() for n in alternatives):
        for name in node.inputs:
            if name and name not in names and name not in text.inputs:
                raise RuleError(f"{rule.path}: text '{text.name}': '{name}' is neither an input nor given by a line")
    needs = {line: _needs(line, producers) for lines in producers.values() for line in lines}
    return Pattern(rule, text.name, text.opset, text.inputs, text.outputs, producers, constants, needs)


def _needs(
    line: TextNode, producers: Mapping[str, tuple[TextNode, ...]]
) -> tuple[tuple[int, frozenset[tuple[str, str]]], ...]:
    return tuple(
        (index, frozenset((giver.domain, giver.op) for giver in producers[name]))
        for index, name in enumerate(line.inputs)
        if name in producers
    )


def _expand(text: Text, book: Rulebook, prefix: str) -> Iterator[tuple[TextNode, ConstantSpec | None]]:
    """Yield the lines of a text, every call of a form replaced by the lines of all its spellings.

    With each line comes what its text says of it as a constant.
    """
    for line, node in enumerate(text.nodes):
        if node.domain != FORM:
            yield node, text.constants.get(node.outputs[0].removeprefix(prefix))
            continue
        for number, spelling in enumerate(book.forms[node.op]):
            inside = f"{prefix}{line}.{number}."
            renamed = dict(zip((*spelling.inputs, *spelling.outputs), (*node.inputs, *node.outputs), strict=True))
            body = tuple(_rename(n, renamed, inside) for n in spelling.nodes)
            yield from _expand(replace(spelling, nodes=body), book, inside)


def _modernised(node: TextNode, opset: int, constants: dict[str, ConstantPattern]) -> TextNode:
    """Return a line with what is an attribute at `opset` but an input later turned into that input."""
    inputs, attributes = list(node.inputs), dict(node.attributes)
    for index, name in schema.moved(node.op, opset, node.domain).items():
        if name in attributes:
            value = attributes.pop(name)
            kind = "value_float" if isinstance(value, float) else "value_ints"
            inputs += [""] * (index + 1 - len(inputs))
            inputs[index] = f"{node.outputs[0]}.{name}"
            constants[inputs[index]] = _constant(replace(node, attributes={kind: value}), None)
    return node if attributes == node.attributes else replace(node, inputs=tuple(inputs), attributes=attributes)


def _rename(node: TextNode, renamed: Mapping[str, str], inside: str) -> TextNode:
    def name(old: str) -> str:
        return renamed.get(old, inside + old) if old else old

    return replace(node, inputs=tuple(map(name, node.inputs)), outputs=tuple(map(name, node.outputs)))


def _constant(node: TextNode, spec: ConstantSpec | None) -> ConstantPattern:
    ((kind, value),) = node.attributes.items()
    if isinstance(value, Bound):
        return Capture(value.name, kind)
    if spec is not None and spec.value is not None:
        return Literal(spec.value, spec.rtol)
    return Literal(_literal(kind, value), spec.rtol if spec else None)


def _literal(kind: str, value: Attribute) -> float | tuple[int, ...]:
    if isinstance(value, AttributeProto):
        return _element(numpy_helper.to_array(value.t))
    tensor = constant_tensor({kind: value})
    assert isinstance(tensor, TensorProto), kind
    return _element(numpy_helper.to_array(tensor))


def _element(array: np.ndarray) -> float | tuple[int, ...]:
    if array.ndim == 0:
        return float(array)
    return tuple(int(element) for element in array)
