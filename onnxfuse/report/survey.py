"""What a model consists of: its nodes by operator, counted in every graph it holds."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    import onnx

_DEFAULT_DOMAINS = ("", "ai.onnx")


def survey_ops(proto: onnx.ModelProto) -> dict[str, int]:
    """Count the nodes of ``proto`` by operator, sorted by name.

    Nodes inside the graphs of If, Loop and Scan count, and so do the bodies of local functions (once each, however
    often they are called). Training graphs do not. Operators outside the default domain are written ``domain.Op``, as
    in ONNX text. Linear in the number of nodes.
    """
    counts: Counter[tuple[str, str]] = Counter()
    for nodes in _node_lists(proto):
        counts.update((node.domain, node.op_type) for node in nodes)
    named: Counter[str] = Counter()
    for (domain, op), count in counts.items():
        named[op_name(domain, op)] += count
    return dict(sorted(named.items()))


def op_name(domain: str, op: str) -> str:
    """Write an operator as ONNX text does: ``Conv``, ``com.microsoft.Gelu``."""
    return op if domain in _DEFAULT_DOMAINS else f"{domain}.{op}"


def default_opset(proto: onnx.ModelProto) -> int | None:
    """The version of the default operator set that ``proto`` imports, None if it imports none."""
    for entry in proto.opset_import:
        if entry.domain in _DEFAULT_DOMAINS:
            return int(entry.version)
    return None


def _node_lists(proto: onnx.ModelProto) -> Iterator[list[onnx.NodeProto]]:
    """Every list of nodes in the model; a stack, not recursion, so that deep nesting cannot overflow."""
    waiting = [list(proto.graph.node)]
    waiting.extend(list(function.node) for function in proto.functions)
    while waiting:
        nodes = waiting.pop()
        yield nodes
        for node in nodes:
            for attribute in node.attribute:
                if attribute.HasField("g"):
                    waiting.append(list(attribute.g.node))
                waiting.extend(list(graph.node) for graph in attribute.graphs)
