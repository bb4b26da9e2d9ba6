"""Why not: what keeps rules from being applied in a model, the nearest first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from difflib import get_close_matches
from pathlib import Path

from onnx import ModelProto

from onnxfuse.attempt import Attempt, Attempts
from onnxfuse.errors import UsageError
from onnxfuse.match.diagnose import Obstacle, obstacles
from onnxfuse.match.pattern import compile_patterns
from onnxfuse.match.search import Matcher
from onnxfuse.model.editable import EditableModel
from onnxfuse.model.file import from_proto, load
from onnxfuse.model.graph import Node
from onnxfuse.pipeline import PathLike
from onnxfuse.progress import Progress, silent
from onnxfuse.report.explanation import Explanation, WhyNot
from onnxfuse.rewrite.steps import STEPS
from onnxfuse.rewrite.trace import Fusion
from onnxfuse.rulebook.load import load_rulebook
from onnxfuse.rulebook.select import selected


def explain(
    model: PathLike | ModelProto,
    *,
    rule: Sequence[str] = (),
    node: str = "",
    rules: Sequence[PathLike] = (),
    select: Sequence[str] = (),
    ignore: Sequence[str] = (),
    opset: str | int = "auto",
    progress: Progress = silent,
) -> Explanation:
    """Fuse what can be fused, and return what stopped each rule where it was not applied.

    ``rule`` are names or globs of rules to tell about, ``node`` the name of a node or of a value that one gives (none:
    all); with either of them everything is told, without them what is `near`. The other arguments are those of
    `optimize`. ``fusions`` are those of the rules and of the node that were asked for.

    Raises what `optimize` does for what cannot be used, and UsageError for a node that the model does not have.
    """
    progress("loading", 0, 0)
    original = from_proto(model) if isinstance(model, ModelProto) else load(Path(model))
    book = load_rulebook([Path(path) for path in rules])
    names = selected([*STEPS, *sorted(rule.name for rule in book.rules)], select, ignore)
    told = selected([*STEPS, *sorted(rule.name for rule in book.rules)], rule, ())
    patterns = tuple(pattern for pattern in compile_patterns(book) if pattern.rule.name in names)
    attempt = Attempts(original, patterns, names & frozenset(STEPS), None, progress).make(opset)
    result = EditableModel(attempt.result)
    _check_node(node, [*EditableModel(original).nodes, *result.nodes])
    asked = tuple(pattern for pattern in patterns if pattern.rule.name in told)
    progress("explaining", 0, 0)
    found = [one for one in obstacles(asked, result.nodes, Matcher(result.constants)) if not node or _is_at(one, node)]
    why_not = [*_refused(attempt, told, node), *map(_why_not, _nearest(found))]
    fusions = tuple(f for f in attempt.trace.fusions if f.rule in told and (not node or _took(f, node)))
    return Explanation(
        original.path.as_posix() if original.path else None,
        attempt.opset,
        fusions,
        tuple(sorted((w for w in why_not if rule or node or w.near), key=_order)),
    )


def _check_node(name: str, nodes: Sequence[Node]) -> None:
    if name and not any(_is_called(node, name) for node in nodes):
        known = [node.name for node in nodes if node.name] + [v.name for node in nodes for v in node.outputs if v.name]
        near = get_close_matches(name, known, n=1)
        hint = f"; did you mean '{near[0]}'?" if near else ""
        raise UsageError(f"no node, and no value that one gives, is called '{name}'{hint}")


def _is_called(node: Node, name: str) -> bool:
    return node.name == name or any(value.name == name for value in node.outputs)


def _is_at(obstacle: Obstacle, name: str) -> bool:
    return any(_is_called(node, name) for node in (obstacle.root, obstacle.node, *obstacle.matched))


def _took(fusion: Fusion, name: str) -> bool:
    return any(name == record.name or name in record.outputs for record in (*fusion.before, *fusion.after))


def _nearest(found: Sequence[Obstacle]) -> Iterator[Obstacle]:
    """Yield for each rule and root node the obstacle of the match text that comes nearest."""
    best: dict[tuple[str, Node], Obstacle] = {}
    for one in found:
        key = (one.pattern.rule.name, one.root)
        if key not in best or (one.left, len(one.reasons)) < (best[key].left, len(best[key].reasons)):
            best[key] = one
    yield from best.values()


def _why_not(obstacle: Obstacle) -> WhyNot:
    root = obstacle.root
    return WhyNot(
        obstacle.pattern.rule.name,
        obstacle.pattern.name,
        root.scope.path,
        root.label(),
        f"{root.domain}.{root.op}" if root.domain else root.op,
        obstacle.node.label(),
        len(obstacle.matched),
        obstacle.of,
        obstacle.reasons,
    )


def _refused(attempt: Attempt, told: frozenset[str] | set[str], node: str) -> Iterator[WhyNot]:
    """Yield the matches that stood but were not replaced: those that need a higher opset, for one."""
    for miss in attempt.trace.refusals:
        if miss.rule in told and node in ("", miss.node):
            yield WhyNot(miss.rule, "", "", miss.node, "", miss.node, 0, 0, (miss.reason,))


def _order(why_not: WhyNot) -> tuple[object, ...]:
    left = max(0, why_not.of - why_not.matched)
    return left, len(why_not.reasons), -why_not.of, why_not.scope, why_not.node, why_not.rule
