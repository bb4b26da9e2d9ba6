"""Finding a pattern at a node: a depth-first search with backtracking, from the root up through the producers.

What decides the structure (operators, attributes, constants) ends a branch of the search in silence.  What the rule or
the graph forbids although the structure is there (a guard, another user of an inner value) is a *near miss*, with a
reason that a person can act on.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice
from typing import TypeAlias

from onnxfuse.match.conditions import Conditions
from onnxfuse.match.literals import LiteralMatcher
from onnxfuse.match.pattern import Capture, Line, Literal, Pattern
from onnxfuse.match.requirements import requirement_misses
from onnxfuse.match.view import View, axes_rank, canonical_equation, normalise, view
from onnxfuse.model import attributes, schema
from onnxfuse.model.attributes import Attribute
from onnxfuse.model.constants import Constants
from onnxfuse.model.graph import Node, Tensor, Value
from onnxfuse.rulebook.rule import Bound, Rule

# A place where this much is in the way is no near miss, and what more there is need not be looked for.
MAX_REASONS = 2

# Steps after which a search at one node is given up, and nodes after which a pattern is given up in a model; patterns
# of real rules need a few dozen steps.
MAX_STEPS = 20_000
MAX_GIVEN_UP = 16


@dataclass(frozen=True)
class Match:
    """A place where a pattern stands: its nodes in the graph's order, and what the names of the text are bound to."""

    pattern: Pattern
    root: Node
    nodes: tuple[Node, ...]
    labels: dict[str, Node]
    bindings: dict[str, Tensor | None]
    attributes: dict[str, Attribute | None]
    dims: dict[str, int | tuple[int, ...]]
    types: dict[str, int]

    @property
    def rule(self) -> Rule:
        """The rule whose pattern this is."""
        return self.pattern.rule

    @property
    def outputs(self) -> dict[str, Value]:
        """The values that the pattern gives, by their names in the text."""
        found = {name: self.bindings[name] for name in self.pattern.outputs}
        return {name: value for name, value in found.items() if isinstance(value, Value)}


@dataclass(frozen=True)
class Miss:
    """A place where a pattern almost stands, and what is in the way."""

    pattern: Pattern
    root: Node
    reasons: tuple[str, ...]


# What is still to be matched: (name in the text, value in the graph, the node that reads it), and the rest.
_Goals: TypeAlias = "tuple[str, Tensor, Node | None, _Goals] | None"


@dataclass
class _State:
    """What a search has found so far; `trail` says how to take it back."""

    bindings: dict[str, Tensor | None] = field(default_factory=dict)
    attributes: dict[str, Attribute | None] = field(default_factory=dict)
    nodes: dict[Node, Line] = field(default_factory=dict)
    trail: list[tuple[dict, object]] = field(default_factory=list)  # type: ignore[type-arg]

    def put(self, table: dict, key: object, value: object) -> None:  # type: ignore[type-arg]
        table[key] = value
        self.trail.append((table, key))

    def undo(self, mark: int) -> None:
        while len(self.trail) > mark:
            table, key = self.trail.pop()
            del table[key]


class Matcher:
    """Finds patterns in the graphs of one model."""

    def __init__(self, constants: Constants) -> None:
        self.constants = constants
        self._literals = LiteralMatcher(constants)
        self._views: dict[Node, View] = {}
        self._given_up: Counter[Pattern] = Counter()

    def match(self, pattern: Pattern, root: Node) -> Match | Miss | None:
        """Return the match of a pattern whose first output `root` gives; a near miss; or None."""
        arguments = self.view(root).arguments
        for line in pattern.roots[root.domain, root.op]:
            if plausible(line, arguments) or (line.commutes and plausible(line, arguments[::-1])):
                return self._searched(pattern, root)
        return None

    def _searched(self, pattern: Pattern, root: Node) -> Match | Miss | None:
        if self._given_up[pattern] >= MAX_GIVEN_UP:
            return Miss(pattern, root, (f"not looked for here: it was given up at {MAX_GIVEN_UP} nodes before",))
        search = Search(pattern, root, self)
        found = search.run()
        self._given_up[pattern] += search.given_up
        return found

    def view(self, node: Node) -> View:
        """Return the opset-independent view of a node."""
        found = self._views.get(node)
        if found is None:
            found = self._views[node] = view(node)
        return found

    def forget(self, node: Node) -> None:
        """Drop what is remembered of a node whose inputs have changed."""
        self._views.pop(node, None)

    @property
    def literals(self) -> LiteralMatcher:
        """Compares constants."""
        return self._literals


class Search:
    """One search for a pattern at one node."""

    def __init__(self, pattern: Pattern, root: Node, matcher: Matcher) -> None:
        self._pattern, self._root, self._matcher = pattern, root, matcher
        self._state = _State()
        self._steps = 0
        self._miss: Miss | None = None
        self._match: Match | None = None

    def run(self) -> Match | Miss | None:
        name = self._pattern.outputs[0]
        for index in sorted({line.text.outputs.index(name) for line in self._pattern.producers[name]}):
            if index < len(self._root.outputs):
                self._solve((name, self._root.outputs[index], None, None))
            if self._match or self.given_up:
                break
        if self.given_up:
            sofar = f"; until then: {self._miss.reasons[0]}" if self._miss else ""
            reason = f"given up after {MAX_STEPS:,} steps: its match text fits here in too many ways{sofar}"
            return Miss(self._pattern, self._root, (reason,))
        return self._match or self._miss

    @property
    def given_up(self) -> bool:
        """Whether the search ended before all was tried that could have been a match."""
        return self._match is None and self._steps > MAX_STEPS

    def _solve(self, goals: _Goals) -> bool:
        """Match what is left to match; True ends the search."""
        self._steps += 1
        if self._steps > MAX_STEPS:
            return True
        if goals is None:
            missing = next((name for name in self._pattern.outputs if name not in self._state.bindings), None)
            return self._accept() if missing is None else self._seek(missing)
        name, value, reader, rest = goals
        mark = len(self._state.trail)
        if self._bind(name, value, reader) and self._descend(name, value, rest):
            return True
        self._state.undo(mark)
        return False

    def _bind(self, name: str, value: Tensor, reader: Node | None) -> bool:
        """Let a name of the text stand for a value; False if it cannot."""
        if name in self._pattern.constants:
            return self._bind_constant(name, value, reader)
        if name in self._state.bindings:
            return self._state.bindings[name] is (None if _is_absent(value) else value)
        guard = self._pattern.rule.inputs.get(name)
        if _is_absent(value) and (guard is None or not guard.optional):
            return False
        self._state.put(self._state.bindings, name, None if _is_absent(value) else value)
        return True

    def _bind_constant(self, name: str, value: Tensor, reader: Node | None) -> bool:
        if not value.constant or reader is None or _is_absent(value):
            return False
        wanted = self._pattern.constants[name]
        rank = axes_rank(reader) if self._counts_axes(reader, value) else None
        if isinstance(wanted, Literal):
            return self._matcher.literals.matches(wanted, value, rank) and self._keeps_rank(value, reader)
        found = self._matcher.literals.capture(wanted, value, rank)
        if found is None or not self._keeps_rank(value, reader, wanted):
            return False
        return self._bind_attribute(wanted.attribute, found)

    def _counts_axes(self, reader: Node, value: Tensor) -> bool:
        arguments = self._matcher.view(reader).arguments
        return schema.argument_name(reader.op, _index(value, arguments)) in schema.AXES

    def _keeps_rank(self, value: Tensor, reader: Node, wanted: Capture | None = None) -> bool:
        """Tell whether a number has no more dims than its partner, so that it cannot make the result larger."""
        if not value.dims or (wanted is not None and wanted.kind == "value_ints"):
            return True
        if schema.argument_name(reader.op, 1) in schema.AXES or reader.op not in schema.BROADCASTING:
            return True
        others = [v for v in reader.inputs if v is not value and v.dims is not None]
        return any(v.dims is not None and len(v.dims) >= len(value.dims) for v in others)

    def _default(self, name: str, attribute: str, rank: int | None) -> Attribute | None:
        """Return what an attribute that is bound stands for where the node does not have it: [attributes] may say.

        A Transpose without a permutation reverses the dims.
        """
        if attribute == "perm":
            return None if rank is None else tuple(reversed(range(rank)))
        default = self._pattern.rule.attributes.get(name, {}).get("default")
        return tuple(default) if isinstance(default, list) else default

    def _bind_attribute(self, name: str, value: Attribute | None) -> bool:
        known = self._state.attributes
        if name in known:
            return attributes.same(known[name], value)
        self._state.put(known, name, value)
        return True

    def _descend(self, name: str, value: Tensor, rest: _Goals) -> bool:
        """Go on above a value, with each line of the text that can give its name."""
        lines = self._pattern.producers.get(name)
        if lines is None:
            return self._solve(rest)
        node = value.producer
        if node is None or node.scope is not self._root.scope:
            return False
        if node in self._state.nodes:
            return self._state.nodes[node] in lines and self._solve(rest)
        op = (node.domain, node.op)
        return any(self._match_node(line, node, name, value, rest) for line in lines if line.op == op)

    def _seek(self, output: str) -> bool:
        """Look for a further output of the text, which is not above the root, among the readers of what is bound."""
        for line in self._pattern.producers[output]:
            bound = [self._state.bindings.get(name) for name in line.text.inputs]
            known = next((value for value in bound if value is not None and not value.constant), None)
            index = line.text.outputs.index(output)
            readers = [] if known is None else [n for n in dict.fromkeys(known.outputs) if n not in self._state.nodes]
            if any(self._solve((output, n.outputs[index], None, None)) for n in readers if len(n.outputs) > index):
                return True
        return False

    def _match_node(self, line: Line, node: Node, name: str, value: Tensor, rest: _Goals) -> bool:
        arguments = self._matcher.view(node).arguments
        orders = self._orders(line, arguments)
        if not orders or line.text.outputs.index(name) != _index(value, node.outputs):
            return False
        mark = len(self._state.trail)
        if self._means_same(line, node) and self._match_attributes(line, node):
            self._state.put(self._state.nodes, node, line)
            for order in orders:
                if _fits(line, order) and self._solve(_with_arguments(line, order, node, rest)):
                    return True
        self._state.undo(mark)
        return False

    def _orders(self, line: Line, arguments: tuple[Tensor, ...]) -> list[tuple[Tensor, ...]]:
        """Return the orders in which arguments may be those of a line."""
        return [order for order in orders_of(line, arguments) if plausible(line, order)]

    def _means_same(self, line: Line, node: Node) -> bool:
        """Tell whether an operator means here what it means at an opset for which the rule is verified."""
        return bool(node.domain) or schema.since(node.op, node.opset) in line.versions

    def _match_attributes(self, line: Line, node: Node) -> bool:
        actual = self._matcher.view(node).attributes
        return all(self._match_attribute(line, node, name, actual) for name in {**actual, **line.text.attributes})

    def _match_attribute(self, line: Line, node: Node, name: str, actual: Mapping[str, Attribute | None]) -> bool:
        expected = schema.defaults(line.text.op, self._pattern.opset, line.text.domain)
        rank = axes_rank(node)
        value = actual.get(name, expected.get(name))  # one that came later is what it means by default
        wanted = line.text.attributes.get(name)
        if isinstance(wanted, Bound):
            bound = self._default(wanted.name, name, rank) if value is None else value
            return self._bind_attribute(wanted.name, normalise(bound, rank) if name in schema.AXES else bound)
        if wanted is None and line.keeps:
            return True
        return _same(name, value, _silent(name, node, expected) if wanted is None else wanted, rank)

    def _accept(self) -> bool:
        """Check what is left to check once the structure is there; True if the match stands."""
        conditions = Conditions(self._pattern.rule)
        state = self._state
        misses = chain(self._use_misses(), conditions.misses(state.bindings, state.attributes))
        reasons = list(islice(misses, MAX_REASONS))
        if not reasons:
            values = {**state.attributes, **conditions.known()}
            types, constants = conditions.types, self._matcher.constants
            reasons += requirement_misses(self._pattern.rule, state.bindings, values, types, constants)
        if reasons:
            if self._miss is None or len(reasons) < len(self._miss.reasons):
                self._miss = Miss(self._pattern, self._root, tuple(reasons))
            return False
        labels = {line.text.label: node for node, line in state.nodes.items() if line.text.label}
        self._match = Match(
            self._pattern,
            self._root,
            tuple(sorted(state.nodes, key=lambda node: node.position)),
            labels,
            dict(state.bindings),
            dict(state.attributes),
            conditions.known(),
            conditions.types,
        )
        return True

    def _use_misses(self) -> Iterator[str]:
        """Yield why nodes of the match cannot go: somebody else needs a value that only they give."""
        nodes = self._state.nodes
        given = {self._state.bindings[name] for name in self._pattern.outputs}
        for value in (v for node in nodes for v in node.outputs if v.name and v not in given):
            if value.pinned:
                yield f"'{value.name}' is a graph output"
            outside = next((user for user in value.outputs if user not in nodes), None)
            if outside is not None:
                yield f"'{value.name}' is also read by '{outside.label()}'"
        for name in self._pattern.inputs:
            bound = self._state.bindings.get(name)
            if bound is not None and bound.producer in nodes and bound not in given:
                yield f"{name} ('{bound.name}') is computed inside the match"


def _same(name: str, first: Attribute | None, second: Attribute | None, rank: int | None) -> bool:
    if first is None or second is None:
        return first is second
    if name in schema.AXES:
        return attributes.same(normalise(first, rank), normalise(second, rank))
    if name == "equation":
        return canonical_equation(first) == canonical_equation(second)
    return attributes.same(first, second)


def _silent(name: str, node: Node, expected: Mapping[str, Attribute | None]) -> Attribute | None:
    """Return what an attribute that the text does not mention must be: its default, where the text was written."""
    return expected[name] if name in expected else schema.defaults(node.op, node.opset, node.domain).get(name)


def _is_absent(value: Tensor) -> bool:
    """Tell whether an optional input is not given; an attribute seen as an argument has no name, but is there."""
    return not value.name and isinstance(value, Value)


def orders_of(line: Line, arguments: tuple[Tensor, ...]) -> tuple[tuple[Tensor, ...], ...]:
    """Return the arguments of a node as they are and, where the operator commutes, the other way round."""
    return (arguments, arguments[::-1]) if line.commutes and len(arguments) == 2 else (arguments,)


def plausible(line: Line, arguments: tuple[Tensor, ...]) -> bool:
    """Tell whether each argument that another line gives comes from such an operator, and each number is constant."""
    for index in line.numbers:
        if index >= len(arguments) or not arguments[index].constant:
            return False
    for index, ops in line.needs:
        producer = arguments[index].producer if index < len(arguments) else None
        if producer is None or (producer.domain, producer.op) not in ops:
            return False
    return True


def _fits(line: Line, arguments: tuple[Tensor, ...]) -> bool:
    """Tell whether nothing is given where the line has nothing."""
    names = line.text.inputs
    return all(_is_absent(value) for i, value in enumerate(arguments) if i >= len(names) or not names[i])


def _with_arguments(line: Line, arguments: tuple[Tensor, ...], node: Node, rest: _Goals) -> _Goals:
    """Return the goals with those of a node's arguments before them."""
    for index in reversed(line.goals):
        if name := line.text.inputs[index]:
            rest = (name, arguments[index] if index < len(arguments) else Value(""), node, rest)
    return rest


def _index(value: Tensor, values: Sequence[Tensor]) -> int:
    return next(index for index, other in enumerate(values) if other is value)
