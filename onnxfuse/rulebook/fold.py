"""What the lines of a text compute from constants alone."""

from __future__ import annotations

from collections.abc import Iterable

from onnxfuse.rulebook.rule import TextNode


def computed_from(lines: Iterable[TextNode], constant: Iterable[str]) -> frozenset[str]:
    """Return the names that lines compute from these constants and from nothing else."""
    known = set(constant)
    computed: set[str] = set()
    for line in lines:
        if not line.domain and all(name in known for name in line.inputs if name):
            computed.update(line.outputs)
            known.update(line.outputs)
    return frozenset(computed)
