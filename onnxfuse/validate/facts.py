"""What a graph does with an input: which table it indexes, what it is compared with, whether it is a mask or a size.

Each input is followed through operators that only move or convert its elements. What it meets at their end bounds the
values that make sense for it. Facts are hints: whatever is drawn from them must still run in the original.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import numpy as np
from onnx import NodeProto

from onnxfuse.validate import readers
from onnxfuse.validate.bodies import Bodies, Place

# Operators whose output holds elements of these inputs, moved or converted but not changed; None: of all inputs.
_CARRIERS: dict[str, tuple[int, ...] | None] = {
    **dict.fromkeys(
        [
            *("Cast", "CastLike", "Clip", "Dropout", "Identity", "Trilu"),
            *("DepthToSpace", "Expand", "Flatten", "Pad", "Reshape", "SpaceToDepth", "Squeeze", "Tile", "Unsqueeze"),
            *("Compress", "Gather", "GatherElements", "GatherND", "ReverseSequence", "Slice", "Split", "Transpose"),
            *("ConcatFromSequence", "Optional", "OptionalGetElement", "SequenceAt", "SplitToSequence"),
        ],
        (0,),
    ),
    **dict.fromkeys(["Concat", "Max", "Min", "SequenceConstruct"], None),
    "Where": (1, 2),
    "ScatterElements": (0, 2),
    "ScatterND": (0, 2),
}
_ARITHMETIC = ("Add", "Sub", "Mul")
_KEEP_AXES = {"Identity", "Cast", "CastLike", "Dropout", "Clip"}
_MOST_STEPS = 20_000
_DEEPEST_CALL = 8


@dataclass
class Facts:
    """What was met on the way from one input; ``high`` bounds are exclusive."""

    low: int = 0
    high: int | None = None
    # Symbols of the dims that bound an index.
    symbols: list[str] = field(default_factory=list)
    constants: list[int] = field(default_factory=list)
    words: list[str] = field(default_factory=list)
    # What the readers say: index, mask, compared, length, size, shape, axis, positive ...
    roles: set[str] = field(default_factory=set)
    # axis of the input -> size that a weight demands of it
    sizes: dict[int, int] = field(default_factory=dict)

    def bound(self, low: int, high: int) -> None:
        """Narrow the range to low <= value < high."""
        self.low = max(self.low, low)
        self.high = high if self.high is None else min(self.high, high)


@dataclass(frozen=True)
class Step:
    """A value on the way: ``scale * input + offset``, where ``axes`` maps its axes to the input's (None: lost)."""

    place: Place
    name: str
    scale: int = 1
    offset: int = 0
    axes: tuple[int, ...] | None = None

    def to(self, name: str, axes: tuple[int, ...] | None = None) -> Step:
        """Return the same elements under another name."""
        return Step(self.place, name, self.scale, self.offset, axes)

    @property
    def key(self) -> tuple[str, tuple[int, ...]]:
        """What makes two steps the same value."""
        return self.name, tuple(id(node) for _, node in self.place.calls)


def facts_of(bodies: Bodies, name: str, rank: int | None) -> Facts:
    """Return the facts about one graph input."""
    facts = Facts()
    start = Step(Place(bodies.main), name, axes=None if rank is None else tuple(range(rank)))
    waiting, seen = [start], {start.key}
    while waiting and len(seen) < _MOST_STEPS:
        step = waiting.pop()
        for following in _follow(bodies, step, facts):
            if following.key not in seen:
                seen.add(following.key)
                waiting.append(following)
    return facts


def _follow(bodies: Bodies, step: Step, facts: Facts) -> Iterator[Step]:
    for name in step.place.body.passages.get(step.name, ()):
        yield step.to(name)
    if step.place.calls:
        yield from _leave_function(bodies, step)
    for node, index in step.place.body.uses.get(step.name, ()):
        called = bodies.function(node)
        if called is None:
            readers.read(bodies, step, node, index, facts)
            yield from _through(bodies, step, node, index)
        elif len(step.place.calls) < _DEEPEST_CALL and index < len(called[0].input):
            function, body = called
            inside = Place(body, (*step.place.calls, (step.place.body, node)))
            yield replace(step, place=inside, name=function.input[index])


def _leave_function(bodies: Bodies, step: Step) -> Iterator[Step]:
    outer, node = step.place.calls[-1]
    called = bodies.function(node)
    if called is not None and step.name in called[0].output:
        index = list(called[0].output).index(step.name)
        if index < len(node.output):
            yield replace(step, place=Place(outer, step.place.calls[:-1]), name=node.output[index])


def _through(bodies: Bodies, step: Step, node: NodeProto, index: int) -> Iterator[Step]:
    if node.op_type in _CARRIERS:
        carried = _CARRIERS[node.op_type]
        if carried is None or index in carried:
            yield from (step.to(name, _moved(step, node)) for name in node.output if name)
    elif node.op_type in _ARITHMETIC:
        yield from _shifted(bodies, step, node, index)


def _moved(step: Step, node: NodeProto) -> tuple[int, ...] | None:
    if node.op_type in _KEEP_AXES:
        return step.axes
    if node.op_type == "Transpose" and step.axes is not None:
        order = next((list(item.ints) for item in node.attribute if item.name == "perm"), None)
        if order is None:
            return step.axes[::-1]
        if len(order) == len(step.axes):
            return tuple(step.axes[axis] for axis in order)
    return None


def _shifted(bodies: Bodies, step: Step, node: NodeProto, index: int) -> Iterator[Step]:
    """Follow an integer through an addition of, or a multiplication by, integer constants."""
    other = bodies.constant(step.place, node.input[1 - index]) if len(node.input) == 2 else None
    if other is None or other.dtype.kind not in "iu" or not other.size:
        return
    largest = int(other.max())
    if node.op_type == "Mul" and largest > 0:
        scale, offset = step.scale * largest, step.offset * largest
    elif node.op_type == "Add":
        scale, offset = step.scale, step.offset + largest
    elif node.op_type == "Sub" and index == 0:
        scale, offset = step.scale, step.offset - int(np.min(other))
    else:
        return
    yield Step(step.place, node.output[0], scale, offset)
