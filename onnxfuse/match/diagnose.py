"""Why a pattern does not stand at a node: a search that remembers how far it came, and what stopped it there.

It takes the same steps as the real search, without its short cuts, and is many times slower: for people who ask.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import TypeAlias

from onnxfuse.match.conditions import show
from onnxfuse.match.pattern import Capture, Line, Literal, Pattern
from onnxfuse.match.search import Match, Matcher, Search, orders_of, plausible
from onnxfuse.model import schema
from onnxfuse.model.attributes import Attribute
from onnxfuse.model.graph import Node, Tensor
from onnxfuse.rulebook.rule import Bound

_Goals: TypeAlias = "tuple[str, Tensor, Node | None, _Goals] | None"

# A constant of more elements is shown by its shape.
_SHOWN_ELEMENTS = 4


class _Kind(IntEnum):
    """Kinds of obstacles, the likelier ones to be what a person looks for last."""

    ARGUMENT = 0  # another value is read
    CONSTANT = 1  # a value is not a constant
    OPERATOR = 2  # another operator gives a value
    ATTRIBUTE = 3
    NUMBER = 4  # a constant has another value


@dataclass(frozen=True)
class Obstacle:
    """How far a pattern reaches from a node: so many of its nodes are there, and this is in the way of the next.

    ``node`` is the one at which it stopped, ``matched`` are the nodes that are there; ``reasons`` are one or two.
    """

    pattern: Pattern
    root: Node
    node: Node
    matched: tuple[Node, ...]
    of: int
    reasons: tuple[str, ...]

    @property
    def left(self) -> int:
        """How many nodes of the pattern are missing; 0 where only a guard or another reader is in the way."""
        return max(0, self.of - len(self.matched))


def diagnose(pattern: Pattern, root: Node, matcher: Matcher) -> Obstacle | None:
    """Return what keeps a pattern from standing at a node; None if it does stand, or nothing of it is there."""
    search = _Diagnosis(pattern, root, matcher)
    found = search.run()
    if isinstance(found, Match):
        return None
    whole = smallest(pattern)
    if found is not None:
        return Obstacle(pattern, root, root, search.whole or (root,), whole, found.reasons)
    if search.best is None:
        return None
    best = search.best
    return Obstacle(pattern, root, best.node, best.matched, max(whole, len(best.matched) + 1), (best.reason,))


def smallest(pattern: Pattern) -> int:
    """Return how many nodes a pattern has in its shortest spelling."""
    return len(_lines(pattern, pattern.outputs))


def _lines(pattern: Pattern, names: tuple[str, ...]) -> frozenset[Line]:
    """Return the lines that give these names, and those above, of each form the shortest spelling."""
    found: frozenset[Line] = frozenset()
    for name in names:
        choices = [_lines(pattern, line.text.inputs) | {line} for line in pattern.producers.get(name, ())]
        found |= min(choices, key=len, default=frozenset())
    return found


@dataclass(frozen=True)
class _Stop:
    """Where a branch of the search ended."""

    matched: tuple[Node, ...]
    kind: _Kind
    node: Node
    reason: str


class _Diagnosis(Search):
    """Goes on where the real search would not begin, and keeps the stop that is farthest from the root."""

    def __init__(self, pattern: Pattern, root: Node, matcher: Matcher) -> None:
        super().__init__(pattern, root, matcher)
        self.best: _Stop | None = None
        self.whole: tuple[Node, ...] = ()
        self._reader = root  # of the value that was bound last

    def _stop(self, kind: _Kind, node: Node | None, reason: str) -> None:
        best = self.best
        if best is None or (len(self._state.nodes), kind) > (len(best.matched), best.kind):
            self.best = _Stop(tuple(self._state.nodes), kind, node or self._root, reason)

    def _orders(self, line: Line, arguments: tuple[Tensor, ...]) -> list[tuple[Tensor, ...]]:
        return sorted(orders_of(line, arguments), key=lambda order: not plausible(line, order))

    def _accept(self) -> bool:
        stands = super()._accept()
        if not stands and not self.whole:
            self.whole = tuple(self._state.nodes)
        return stands

    def _bind(self, name: str, value: Tensor, reader: Node | None) -> bool:
        self._reader = reader or self._root
        bound = super()._bind(name, value, reader)
        if not bound and name not in self._pattern.constants and reader is not None:
            other = self._state.bindings.get(name)
            wanted = f"'{other.name}'" if other is not None else name
            self._stop(_Kind.ARGUMENT, reader, f"{_label(reader)} reads {_value(value)}, the rule wants {wanted}")
        return bound

    def _bind_constant(self, name: str, value: Tensor, reader: Node | None) -> bool:
        bound = super()._bind_constant(name, value, reader)
        if not bound and reader is not None:
            wanted = self._wanted(self._pattern.constants[name])
            if value.constant:
                what = f"'{value.name or self._argument(value, reader)}' of {_label(reader)} is {self._shown(value)}"
                self._stop(_Kind.NUMBER, reader, f"{what}, the rule wants {wanted}")
            else:
                reason = f"{_label(reader)} reads {_value(value)}, the rule wants {wanted} there"
                self._stop(_Kind.CONSTANT, reader, reason)
        return bound

    def _argument(self, value: Tensor, reader: Node) -> str:
        """Return the name of the attribute that is seen as an argument."""
        arguments = self._matcher.view(reader).arguments
        return schema.argument_name(reader.op, next(i for i, other in enumerate(arguments) if other is value))

    def _wanted(self, wanted: Literal | Capture) -> str:
        if isinstance(wanted, Literal):
            return _spelled(wanted)
        known = self._state.attributes.get(wanted.attribute)
        if known is not None:
            return f"{_plain(known)} ('{wanted.attribute}', as elsewhere)"
        return f"{'constants' if wanted.kind == 'value_ints' else 'one constant'} ('{wanted.attribute}')"

    def _shown(self, value: Tensor) -> str:
        array = self._matcher.constants.small(value)
        if array is None or array.size > _SHOWN_ELEMENTS:
            return f"a constant of shape {show(value.dims)}"
        return f"{array.item():.7g}" if array.size == 1 and array.dtype.kind == "f" else str(array.tolist())

    def _descend(self, name: str, value: Tensor, rest: _Goals) -> bool:
        lines = self._pattern.producers.get(name)
        if lines is not None:
            self._look_above(value, lines)
        return super()._descend(name, value, rest)

    def _look_above(self, value: Tensor, lines: tuple[Line, ...]) -> None:
        """Note why no line of the text can give a value, if none can."""
        node, reads = value.producer, f"{_label(self._reader)} reads {_value(value)}"
        wanted = f"the rule wants it from {' or '.join(sorted({line.text.op for line in lines}))}"
        if node is None:
            what = "a constant" if value.constant else "an input of the graph"
            self._stop(_Kind.OPERATOR, self._reader, f"{reads}, {what}: {wanted}")
        elif node.scope is not self._root.scope:
            self._stop(_Kind.OPERATOR, node, f"{reads}, which {_label(node)} gives outside of this graph")
        elif (node.domain, node.op) not in {line.op for line in lines}:
            self._stop(_Kind.OPERATOR, node, f"{reads} from {_label(node)}: {wanted}")

    def _means_same(self, line: Line, node: Node) -> bool:
        same = super()._means_same(line, node)
        if not same:
            self._stop(_Kind.ATTRIBUTE, node, f"the rule is not verified for {node.op} at opset {node.opset}")
        return same

    def _match_attribute(self, line: Line, node: Node, name: str, actual: Mapping[str, Attribute | None]) -> bool:
        same = super()._match_attribute(line, node, name, actual)
        if not same:
            wanted = line.text.attributes.get(name)
            other = self._state.attributes.get(wanted.name) if isinstance(wanted, Bound) else wanted
            if wanted is None:
                other = schema.defaults(line.text.op, self._pattern.opset, line.text.domain).get(name)
            shown = "another" if other is None else _plain(other)
            reason = f"'{name}' of {_label(node)} is {_plain(actual.get(name))}, the rule wants {shown}"
            self._stop(_Kind.ATTRIBUTE, node, reason)
        return same


def _label(node: Node) -> str:
    return f"{node.op} '{node.label()}'"


def _value(value: Tensor) -> str:
    return f"'{value.name}'" if value.name else "a value without a name"


def _spelled(wanted: Literal) -> str:
    if isinstance(wanted.value, tuple):
        return str(list(wanted.value))
    return f"{wanted.value:.7g}" + (f" within {wanted.rtol:g} of it" if wanted.rtol else "")


def _plain(value: object) -> str:
    if value is None:
        return "not given"
    if isinstance(value, bytes):
        return repr(value.decode(errors="replace"))
    return str(list(value)) if isinstance(value, tuple) else f"{value}"


def obstacles(patterns: tuple[Pattern, ...], nodes: Iterator[Node], matcher: Matcher) -> Iterator[Obstacle]:
    """Yield what keeps each of the patterns from standing at each of the nodes that could be its root."""
    by_root: dict[tuple[str, str], list[Pattern]] = {}
    for pattern in patterns:
        for root in pattern.roots:
            by_root.setdefault(root, []).append(pattern)
    for node in nodes:
        for pattern in by_root.get((node.domain, node.op), ()):
            found = diagnose(pattern, node, matcher)
            if found is not None:
                yield found
