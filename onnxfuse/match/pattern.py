"""Match texts made ready for searching: which lines can give each name, what its constants ask for, where to start."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
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


# The (domain, operator) of a node.
Op: TypeAlias = tuple[str, str]


@dataclass(frozen=True, eq=False)
class Line:
    """One line of a match text, with what can be known of it before any graph is seen.

    `op`: its operator.  `needs`: the positions of the inputs that other lines give, each with the operators that can
    give it; `numbers`: those of the inputs that are constants of the text.  `goals`: the positions of all inputs, in
    the order in which they are best matched: first what other lines give, then constants, then inputs of the rule.
    `commutes`: whether its two inputs may change places.  `keeps`: whether attributes that the text does not mention
    may be anything.  `versions`: those of the operator at the opsets for which the rule is verified.
    """

    text: TextNode
    op: Op
    needs: tuple[tuple[int, frozenset[Op]], ...]
    numbers: tuple[int, ...]
    goals: tuple[int, ...]
    commutes: bool
    keeps: bool
    versions: frozenset[int]


@dataclass(frozen=True, eq=False)
class Pattern:
    """One match text of a rule.

    `producers`: for each name that lines of the text give, the lines that can give it (several for a form).
    `constants`: the names that are constants of the text.  `depth`: the most lines from the output up to an input.
    """

    rule: Rule
    name: str
    opset: int
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    producers: Mapping[str, tuple[Line, ...]]
    constants: Mapping[str, ConstantPattern]
    depth: int

    @cached_property
    def roots(self) -> Mapping[Op, tuple[Line, ...]]:
        """The operators that can give the first output, with the lines that do."""
        lines = self.producers[self.outputs[0]]
        return {op: tuple(line for line in lines if line.op == op) for op in {line.op for line in lines}}

    @property
    def operators(self) -> set[Op]:
        """The operators of all lines."""
        return {line.op for lines in self.producers.values() for line in lines}


def compile_patterns(book: Rulebook) -> tuple[Pattern, ...]:
    """Return the patterns of all rules, in the order in which they are to be tried."""
    return tuple(_compile(rule, text, book) for rule in book.rules for text in rule.matches)


def _compile(rule: Rule, text: Text, book: Rulebook) -> Pattern:
    givers: dict[str, list[TextNode]] = {}
    constants: dict[str, ConstantPattern] = {}
    depths: dict[str, int] = {}
    for node, spec in _expand(text, book, ""):
        if node.op == "Constant" and not node.domain:
            constants[node.outputs[0]] = _constant(node, spec)
            continue
        modern = _modernised(node, text.opset, constants)
        depth = 1 + max((depths.get(name, 0) for name in modern.inputs), default=0)
        for output in modern.outputs:
            givers.setdefault(output, []).append(modern)
            depths[output] = max(depth, depths.get(output, 0))
    _check_names(rule, text, givers, constants)
    lines = {id(node): _line(rule, node, givers, constants) for nodes in givers.values() for node in nodes}
    producers = {name: tuple(lines[id(node)] for node in nodes) for name, nodes in givers.items()}
    depth = max(depths[output] for output in text.outputs)
    return Pattern(rule, text.name, text.opset, text.inputs, text.outputs, producers, constants, depth)


def _check_names(
    rule: Rule, text: Text, givers: Mapping[str, list[TextNode]], constants: Mapping[str, ConstantPattern]
) -> None:
    for output in text.outputs:
        if output not in givers:
            raise RuleError(f"{rule.path}: text '{text.name}': no line gives the output '{output}'")
    for name in (name for nodes in givers.values() for node in nodes for name in node.inputs if name):
        if name not in givers and name not in constants and name not in text.inputs:
            raise RuleError(f"{rule.path}: text '{text.name}': '{name}' is neither an input nor given by a line")


def _line(
    rule: Rule, node: TextNode, givers: Mapping[str, list[TextNode]], constants: Mapping[str, ConstantPattern]
) -> Line:
    def rank(index: int) -> int:
        name = node.inputs[index]
        return 0 if name in givers else 1 if name in constants else 2

    needs = tuple(
        (index, frozenset((giver.domain, giver.op) for giver in givers[name]))
        for index, name in enumerate(node.inputs)
        if name in givers
    )
    return Line(
        text=node,
        op=(node.domain, node.op),
        needs=needs,
        numbers=tuple(index for index, name in enumerate(node.inputs) if name in constants),
        goals=tuple(sorted(range(len(node.inputs)), key=rank)),
        commutes=schema.commutes(node.op, node.domain) and len(set(node.inputs)) == len(node.inputs) == 2,
        keeps=rule.keep.get(node.label) == node.op,
        versions=frozenset(schema.since(node.op, opset, node.domain) for opset in rule.verified) - {0},
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
        return bool(array) if array.dtype == np.bool_ else float(array)
    return tuple(int(element) for element in array)
