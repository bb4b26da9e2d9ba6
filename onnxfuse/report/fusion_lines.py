"""The fusions of a report as lines of text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from onnxfuse.report.wording import Style, printable, quoted, shortened

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from onnxfuse.rewrite.trace import Fusion, NodeRecord

# Up to so many equal fusions are listed one by one, and up to so many nodes of one fusion.
_LISTED_FUSIONS = 3
_LISTED_NODES = 4
_NAME_WIDTH = 40


def fusion_lines(fusions: Iterable[Fusion], every: bool, style: Style) -> list[str]:
    """One line per fusion; unless ``every``, fusions of the same kind share a line with their count."""
    lines: list[str] = []
    for kind in _kinds(fusions):
        if every:
            lines.extend(line for fusion in kind for line in _detailed(fusion, style))
        elif len(kind) <= _LISTED_FUSIONS:
            lines.extend(_line(fusion, style) for fusion in kind)
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


def _line(fusion: Fusion, style: Style, *, whole: bool = False) -> str:
    """The fusion in one line; unless ``whole``, long names and long lists of nodes are cut."""
    before = _side([_node(node, whole) for node in fusion.before], whole)
    after = _side([_node(node, whole) for node in fusion.after], whole)
    scope = f"  in {quoted(fusion.scope)}" if fusion.scope else ""
    return f"{_rule(fusion, style)}  {before} -> {after}{scope}"


def _detailed(fusion: Fusion, style: Style) -> list[str]:
    """The fusion with all its nodes, which match text found it and the weights it created."""
    match = f"  (match {quoted(fusion.match)})" if fusion.match else ""
    weights = [
        f"    + weight {quoted(weight.name)} {weight.dtype}[{', '.join(map(str, weight.shape))}]"
        for weight in fusion.weights
    ]
    return [_line(fusion, style, whole=True) + match, *weights]


def _counted_line(kind: Sequence[Fusion], style: Style) -> str:
    first = kind[0]
    before = _side([printable(node.op) for node in first.before], False)
    after = _side([printable(node.op) for node in first.after], False)
    return f"{_rule(first, style)}  {len(kind):,} x {before} -> {after}"


def _rule(fusion: Fusion, style: Style) -> str:
    return f"{style('~', 'change')} {style(fusion.rule, 'change')}"


def _side(nodes: Sequence[str], whole: bool) -> str:
    if not nodes:
        return "nothing"
    if not whole and len(nodes) > _LISTED_NODES:
        return f"{nodes[0]} + {len(nodes) - 2} more + {nodes[-1]}"
    return " + ".join(nodes)


def _node(node: NodeRecord, whole: bool) -> str:
    """``Conv 'conv1'``; a node without a name goes by its first output."""
    name = node.name or next((output for output in node.outputs if output), "")
    if not whole:
        name = shortened(name, _NAME_WIDTH)
    return f"{printable(node.op)} {quoted(name)}" if name else printable(node.op)
