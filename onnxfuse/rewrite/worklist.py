"""The order in which sites are looked at: one queue of nodes for each level of rules, the lowest level first."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Generic, TypeVar

from onnxfuse.model.graph import Node

Task = TypeVar("Task")


class Worklist(Generic[Task]):
    """Nodes to look at, each once per level until it is put back.

    `levels`: for each level, the tasks to try on a node by its (domain, operator).
    """

    def __init__(self, levels: Sequence[Mapping[tuple[str, str], Sequence[Task]]]) -> None:
        self._levels = levels
        self._levels_of: dict[tuple[str, str], list[int]] = {}
        for level, tasks in enumerate(levels):
            for op in tasks:
                self._levels_of.setdefault(op, []).append(level)
        self._queues: list[deque[Node]] = [deque() for _ in levels]
        self._waiting: list[set[Node]] = [set() for _ in levels]

    def add(self, nodes: Iterable[Node]) -> None:
        """Put nodes into the queue of every level that has something to try on them."""
        for node in nodes:
            for level in self._levels_of.get((node.domain, node.op), ()):
                if node not in self._waiting[level]:
                    self._waiting[level].add(node)
                    self._queues[level].append(node)

    def __iter__(self) -> Iterator[tuple[Node, Sequence[Task]]]:
        """Yield nodes with what is to be tried on them until nothing is left; nodes may be added meanwhile."""
        while (level := next((i for i, queue in enumerate(self._queues) if queue), None)) is not None:
            node = self._queues[level].popleft()
            self._waiting[level].discard(node)
            if node.alive:
                yield node, self._levels[level][node.domain, node.op]


def around(nodes: Iterable[Node], depth: int) -> Iterator[Node]:
    """Yield nodes and those that read what they give, down to `depth` steps."""
    seen: set[Node] = set()
    layer = [node for node in nodes if node.alive]
    for _ in range(depth + 1):
        fresh = [node for node in dict.fromkeys(layer) if node not in seen]
        seen.update(fresh)
        yield from fresh
        layer = [user for node in fresh for value in node.outputs for user in value.outputs]
