"""What rewriting did: one record for each change, and one for each that almost was."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from onnx import TensorProto

from onnxfuse.model.graph import Node, Weight


@dataclass(frozen=True)
class NodeRecord:
    """A node as a report shows it."""

    name: str
    op: str
    outputs: tuple[str, ...]

    @classmethod
    def of(cls, node: Node) -> NodeRecord:
        """Record a node that is still in its graph."""
        op = f"{node.domain}.{node.op}" if node.domain else node.op
        return cls(node.name, op, tuple(value.name for value in node.outputs))


@dataclass(frozen=True)
class WeightRecord:
    """An initializer that a fusion created: its name, element type and shape."""

    name: str
    dtype: str
    shape: tuple[int, ...]

    @classmethod
    def of(cls, weight: Weight) -> WeightRecord:
        """Record a new weight."""
        return cls(weight.name, TensorProto.DataType.Name(weight.elem_type).lower(), weight.dims)


class Site(NamedTuple):
    """Where a rule was applied, in terms that stay the same when a model is rewritten once more."""

    rule: str
    scope: str
    outputs: tuple[str, ...]


@dataclass(frozen=True)
class Fusion:
    """One application of a rule (or of a clean-up step): where, what went, what came.

    ``outputs`` are the values that readers outside see: what was computed anew, or is read from now on.
    """

    rule: str
    match: str
    scope: str
    before: tuple[NodeRecord, ...]
    after: tuple[NodeRecord, ...]
    weights: tuple[WeightRecord, ...] = ()
    outputs: tuple[str, ...] = ()

    @property
    def site(self) -> Site:
        """Return where this was."""
        return Site(self.rule, self.scope, self.outputs)


@dataclass(frozen=True)
class NearMiss:
    """A site where a rule almost matched, and why it did not."""

    rule: str
    node: str
    reason: str


@dataclass
class Trace:
    """All that happened to a model, in order, and what almost happened; ``refusals`` are the near misses that stood."""

    fusions: list[Fusion] = field(default_factory=list)
    near_misses: list[NearMiss] = field(default_factory=list)
    refusals: list[NearMiss] = field(default_factory=list)


def records(nodes: Sequence[Node]) -> tuple[NodeRecord, ...]:
    """Record several nodes."""
    return tuple(NodeRecord.of(node) for node in nodes)
