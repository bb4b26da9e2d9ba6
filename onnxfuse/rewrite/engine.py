"""Rewriting to a fixpoint: clean-up first, then the rules level by level, from a worklist around each change."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from functools import partial
from typing import NoReturn, TypeAlias

from onnxfuse.errors import EndlessRulesError
from onnxfuse.match.pattern import Pattern
from onnxfuse.match.search import Match, Matcher, Miss
from onnxfuse.model import schema
from onnxfuse.model.editable import EditableModel
from onnxfuse.model.graph import Node
from onnxfuse.progress import Progress, silent
from onnxfuse.rewrite import cleanup
from onnxfuse.rewrite.folding import fold_constants
from onnxfuse.rewrite.leftovers import drop_dead_weights, remove_dead_nodes
from onnxfuse.rewrite.noops import OPERATORS
from onnxfuse.rewrite.replacement import Planner, Refused
from onnxfuse.rewrite.reshapes import make_static
from onnxfuse.rewrite.splice import Splicer, site_of
from onnxfuse.rewrite.steps import COMMON_SUBEXPRESSION, CONSTANT_FOLDING, DEAD_CODE, STATIC_RESHAPE, STEPS
from onnxfuse.rewrite.trace import Fusion, NearMiss, Site, Trace
from onnxfuse.rewrite.worklist import Worklist, around
from onnxfuse.rulebook.rule import Rule

# A task looks at one node and tells whether it changed anything.
_Task: TypeAlias = Callable[[Node], bool]

# Applications per node after which rules must be chasing each other.
MAX_APPLICATIONS_PER_NODE = 20


class HigherOpset(Exception):
    """A fusion needs a higher opset than the model has."""

    def __init__(self, opset: int) -> None:
        super().__init__(opset)
        self.opset = opset


def rewrite(
    model: EditableModel,
    patterns: Sequence[Pattern],
    *,
    steps: Set[str] = frozenset(STEPS),
    max_opset: int,
    permits: Callable[[Site], bool] = lambda _: True,
    ask_first: bool = True,
    progress: Progress = silent,
) -> Trace:
    """Apply clean-up steps and patterns to a model until nothing changes, and return what was done.

    Raises HigherOpset if fusions need an opset above the model's but not above `max_opset`: then the model must be
    raised to that and rewritten from its start.  `permits` tells where rules may be applied.
    `ask_first`: look for such fusions before anything is rewritten.
    """
    return _Rewriter(model, patterns, steps, max_opset, permits, progress).run(ask_first)


class _Rewriter:
    def __init__(
        self,
        model: EditableModel,
        patterns: Sequence[Pattern],
        steps: Set[str],
        max_opset: int,
        permits: Callable[[Site], bool],
        progress: Progress,
    ) -> None:
        self._model, self._steps, self._max_opset, self._progress = model, steps, max_opset, progress
        self._permits = permits
        self._constants = model.constants
        self._matcher = Matcher(self._constants)
        self._planner = Planner(self._constants)
        self._splicer = Splicer(model, self._constants)
        self._trace = Trace()
        self._misses: dict[tuple[str, Node], str] = {}
        self._refusals: dict[tuple[str, Node], str] = {}  # of these, where the pattern stood
        self._asking = False  # whether only fusions that need a higher opset are looked for, and none is made
        self._asked: set[int] = set()  # the opsets that they need
        self._depth = max((pattern.depth for pattern in patterns), default=1)
        self._patterns = patterns
        self._worklist = Worklist[_Task](self._levels(patterns))
        newer = [pattern for pattern in patterns if emits_newer(pattern.rule, model.opset)]
        self._questions = Worklist[_Task](self._levels(newer)[1:])

    def _levels(self, patterns: Sequence[Pattern]) -> list[dict[tuple[str, str], list[_Task]]]:
        """Return the tasks by level and operator: passing-on nodes first, then the rules by their order."""
        levels: list[dict[tuple[str, str], list[_Task]]] = [
            {("", op): [self._bypass] for op in ("Identity", "Cast", *sorted(OPERATORS))}
        ]
        for order in sorted({pattern.rule.order for pattern in patterns}):
            tasks: dict[tuple[str, str], list[_Task]] = {}
            for pattern in (p for p in patterns if p.rule.order == order):
                for root in sorted(pattern.roots):
                    tasks.setdefault(root, []).append(partial(self._apply, pattern))
            levels.append(tasks)
        return levels

    def run(self, ask_first: bool) -> Trace:
        """Apply the rules, then merge equal nodes and fold constants, then apply the rules around those.

        Not the other way round: two equal Convs with a BatchNormalization each must be folded before they are merged.
        """
        nodes = [node for node in self._model.nodes if node.alive]
        limit = MAX_APPLICATIONS_PER_NODE * (len(nodes) + 50)
        self._remove_dead()
        nodes = [node for node in nodes if node.alive]
        if ask_first and self._max_opset > self._model.opset:
            self._ask(nodes)
        self._worklist.add(nodes)
        self._drain(limit, len(nodes))
        if COMMON_SUBEXPRESSION in self._steps:
            for fusion, touched in cleanup.merge_equal_nodes(self._model, self._constants):
                self._changed(fusion, touched)
            self._drain(limit, len(nodes))
        if STATIC_RESHAPE in self._steps:
            for fusion, touched in make_static(self._model, self._constants):
                self._changed(fusion, touched)
        if CONSTANT_FOLDING in self._steps:
            for fusion, touched in fold_constants(self._model, self._constants):
                self._changed(fusion, touched)
        self._drain(limit, len(nodes))
        self._trace.near_misses = list(_still_there(self._misses))
        self._trace.refusals = list(_still_there(self._refusals))
        return self._trace

    def _remove_dead(self) -> None:
        if DEAD_CODE in self._steps:
            for fusion in remove_dead_nodes(self._model):
                self._changed(fusion, ())
            self._trace.fusions += drop_dead_weights(self._model)

    def _ask(self, nodes: Sequence[Node]) -> None:
        """Find out first whether fusions need a higher opset: all that is done before is done again then."""
        self._asking = True
        self._questions.add(nodes)
        for node, tasks in self._questions:
            any(task(node) for task in tasks)
        if self._asked:
            raise HigherOpset(max(self._asked))
        self._asking = False

    def _drain(self, limit: int, total: int) -> None:
        for seen, (node, tasks) in enumerate(self._worklist):
            self._progress("rewriting", min(seen, total), total)
            any(task(node) for task in tasks)
            if len(self._trace.fusions) > limit:
                raise self._endless()
        if self._asked:
            raise HigherOpset(max(self._asked))

    def _endless(self) -> EndlessRulesError:
        last = {fusion.rule for fusion in self._trace.fusions[-MAX_APPLICATIONS_PER_NODE:]}
        paths = {pattern.rule.name: pattern.rule.path for pattern in self._patterns if pattern.rule.name in last}
        rules = ", ".join(f"'{name}' ({paths[name]})" if name in paths else f"'{name}'" for name in sorted(last))
        return EndlessRulesError(f"rules do not come to an end on this model; leave one of them out: {rules}")

    def _changed(self, fusion: Fusion, touched: Iterable[Node]) -> None:
        """Record a change, and look again at the nodes it touched and those after them.

        What gives a value that has lost a reader, for none of the nodes touched, counts as touched: other readers may
        now have it for themselves.
        """
        nodes = [node for node in touched if node.alive]
        self._trace.fusions.append(fusion)
        for node in nodes:
            self._matcher.forget(node)
        read = {value for node in nodes for value in node.inputs}
        self._worklist.add(around([*nodes, *self._model.loosened(read)], self._depth))

    def _bypass(self, node: Node) -> bool:
        step = cleanup.passes_on(node, self._constants)
        done = cleanup.bypass(node, step) if step in self._steps else None
        if done is not None:
            self._changed(*done)
        return done is not None

    def _apply(self, pattern: Pattern, node: Node) -> bool:
        if all(value.constant for value in node.outputs) or (
            self._asking and not emits_newer(pattern.rule, node.opset)
        ):
            return False
        found = self._matcher.match(pattern, node)
        if isinstance(found, Miss) and len(found.reasons) == 1:
            self._note_miss(pattern.rule, node, found.reasons[0])
        return isinstance(found, Match) and self._replace(found)

    def _replace(self, match: Match) -> bool:
        try:
            if not self._permits(site_of(match)):
                raise Refused("undone: it made the result differ from the original")
            replacement = self._planner.plan(match)
            needed = needed_opset(match.rule, [(line.domain, line.op) for line in replacement.lines], match.root.opset)
            if needed is None or needed > match.root.opset:
                self._ask_for(needed, match)
            readers = [u for v in match.bindings.values() if v is not None and not v.constant for u in v.outputs]
            fusion, nodes = self._splicer.splice(match, replacement)
        except Refused as refusal:
            self._note_miss(match.rule, match.root, str(refusal))
            self._refusals.setdefault((match.rule.name, match.root), str(refusal))
            return False
        self._changed(fusion, [*nodes, *readers])
        return True

    def _ask_for(self, opset: int | None, match: Match) -> NoReturn:
        """Note that a match needs an opset if the model may be raised to that; it is not replaced now."""
        wanted = max(self._asked, default=match.root.opset)
        if opset is None:
            raise Refused(f"the rule is not verified for what it needs at opset {match.root.opset}")
        if wanted < opset <= self._max_opset and not match.root.scope.is_function and not self._is_part(match):
            self._asking = True
            self._asked.add(opset)
        raise Refused(f"needs opset {opset}, the model has {match.root.opset}")

    def _is_part(self, match: Match) -> bool:
        """Tell whether a rule that comes first takes nodes of a match, as a LayerNormalization holds an RMS norm."""
        before = [pattern for pattern in self._patterns if pattern.rule.order < match.rule.order]
        for node in around([match.root], self._depth):
            for pattern in (p for p in before if (node.domain, node.op) in p.roots):
                found = self._matcher.match(pattern, node)
                if isinstance(found, Match) and not set(found.nodes).isdisjoint(match.nodes):
                    return True
        return False

    def _note_miss(self, rule: Rule, node: Node, reason: str) -> None:
        self._misses.setdefault((rule.name, node), reason)


def _still_there(misses: Mapping[tuple[str, Node], str]) -> Iterator[NearMiss]:
    for (rule, node), reason in misses.items():
        if node.alive:
            yield NearMiss(rule, node.label(), reason)


def emits_newer(rule: Rule, opset: int) -> bool:
    """Tell whether a rule emits an operator that joined its domain after `opset`."""
    return any(not schema.since(node.op, opset) for node in rule.rewrite.nodes if not node.domain)


def needed_opset(rule: Rule, ops: Sequence[tuple[str, str]], opset: int) -> int | None:
    """Return the lowest opset, `opset` or above, at which operators that a rule emits mean what it is verified for.

    Only an operator that does not exist yet is worth a higher opset; None if one has a version that is not verified.
    """
    standard = [op for domain, op in ops if not domain]
    if all(schema.since(op, opset) for op in standard) and standard:
        verified = all(schema.since(op, opset) in {schema.since(op, v) for v in rule.verified} for op in standard)
        return opset if verified else None
    meanings: Mapping[str, set[int]] = {op: {schema.since(op, v) for v in rule.verified} - {0} for op in standard}
    for candidate in (opset, *(v for v in rule.verified if v > opset)):
        if all(schema.since(op, candidate) in meanings[op] for op in standard):
            return candidate
    return None
