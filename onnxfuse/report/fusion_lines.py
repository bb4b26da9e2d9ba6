"""The fusions of a report as lines of text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from onnxfuse.report.wording import Style, plain, printable, quoted

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from onnxfuse.rewrite.trace import Fusion, NodeRecord

# Up to so many equal fusions are listed one by one, with the names of their nodes, if no line is wider than this.
_LISTED_FUSIONS = 3
_WIDTH = 100
# Up to so many nodes of one fusion are listed.
_LISTED_NODES = 4


def fusion_lines(fusions: Iterable[Fusion], every: bool, style: Style) -> list[str]:
    """One line per fusion; unless ``every``, many fusions of one kind, or long ones, share a line without names."""
    lines: list[str] = []
    for kind in _kinds(fusions):
        if every:
            lines.extend(line for fusion in kind for line in _detailed(fusion, style))
        elif len(kind) <= _LISTED_FUSIONS and all(_fits(fusion) for fusion in kind):
            lines.extend(_line(fusion, style, _LISTED_NODES) for fusion in kind)
        else:
            lines.append(_counted_line(kind, style))
    return lines


def _kinds(fusions: Iterable[Fusion]) -> list[list[Fusion]]:
    """Group fusions of one rule with the same operators before and after, in order of first appearance."""
    kinds: dict[tuple[object, ...], list[Fusion]] = {}
    for fusion in fusions:
        key = (fusion.rule, tuple(n.op for n in fusion.before), tuple(n.op for n in fusion.after))
        kinds.setdefault(key, []).append(fusion)
    return list(kinds.values())


def _fits(fusion: Fusion) -> bool:
    return len(_line(fusion, plain, _LISTED_NODES)) <= _WIDTH


def _line(fusion: Fusion, style: Style, listed: int | None) -> str:
    return f"{_rule(fusion, style)}  {sides(fusion, listed)}"


def sides(fusion: Fusion, listed: int | None = _LISTED_NODES) -> str:
    """The nodes before and after; of more than ``listed`` the first and the last."""
    before = _side([_node(node) for node in fusion.before], listed)
    after = _side([_node(node) for node in fusion.after], listed)
    scope = f"  in {quoted(fusion.scope)}" if fusion.scope else ""
    return f"{before} -> {after}{scope}"


def _detailed(fusion: Fusion, style: Style) -> list[str]:
    """The fusion with all its nodes, which match text found it and the weights it created."""
    match = f"  (match {quoted(fusion.match)})" if fusion.match else ""
    weights = [
        f"    + weight {quoted(weight.name)} {weight.dtype}[{', '.join(map(str, weight.shape))}]"
        for weight in fusion.weights
    ]
    return [_line(fusion, style, None) + match, *weights]


def _counted_line(kind: Sequence[Fusion], style: Style) -> str:
    first = kind[0]
    before = _side([printable(node.op) for node in first.before], _LISTED_NODES)
    after = _side([printable(node.op) for node in first.after], _LISTED_NODES)
    count = f"{len(kind):,} x " if len(kind) > 1 else ""
    return f"{_rule(first, style)}  {count}{before} -> {after}"


def _rule(fusion: Fusion, style: Style) -> str:
    return f"{style('~', 'change')} {style(fusion.rule, 'change')}"


def _side(nodes: Sequence[str], listed: int | None) -> str:
    if not nodes:
        return "nothing"
    if listed is not None and len(nodes) > listed:
        return f"{nodes[0]} + {len(nodes) - 2} more + {nodes[-1]}"
    return " + ".join(nodes)


def _node(node: NodeRecord) -> str:
    """``Conv 'conv1'``; a node without a name goes by its first output."""
    name = node.name or next((output for output in node.outputs if output), "")
    return f"{printable(node.op)} {quoted(name)}" if name else printable(node.op)
