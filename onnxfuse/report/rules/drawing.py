"""Diagrams drawn with characters: from each output up to the inputs, a branch for each operand."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from onnxfuse.report.rules.diagram import Box, Diagram

FOLDED = "*"  # behind what is computed once, when the rule is applied


@dataclass(frozen=True)
class Strokes:
    """The characters that branches are drawn with."""

    fork: str
    end: str
    down: str
    again: str


UNICODE = Strokes(fork="├─ ", end="└─ ", down="│  ", again=" ↑")
ASCII = Strokes(fork="|- ", end="`- ", down="|  ", again=" (above)")


def draw(diagram: Diagram, strokes: Strokes = UNICODE) -> list[str]:
    """Return the lines of a drawing; a value that is read again is drawn once and then only named."""
    return list(_Pen(diagram, strokes).lines())


class _Pen:
    def __init__(self, diagram: Diagram, strokes: Strokes) -> None:
        self._diagram, self._strokes = diagram, strokes
        self._givers = {name: box for box in diagram.boxes for name in box.outputs}
        reads = [name for box in diagram.boxes for name in box.inputs]
        self._shared = {name for name in reads if reads.count(name) > 1} | set(diagram.outputs)
        self._drawn: set[str] = set()

    def lines(self) -> Iterator[str]:
        for name in self._diagram.outputs:
            yield from self._value(name, "", "")
        for attribute, name in self._diagram.derived.items():
            (first, *rest) = self._value(name, "", "")
            yield from (f"@{attribute} = {first.removeprefix(f'{name} = ')}", *rest)

    def _value(self, name: str, head: str, below: str) -> Iterator[str]:
        box = self._givers.get(name)
        if box is None:
            yield head + (self._diagram.leaves[name].caption if name else "(absent)")
        elif name in self._drawn:
            yield head + name + self._strokes.again
        else:
            self._drawn.update(box.outputs)
            yield head + self._title(name, box)
            for index, operand in enumerate(box.inputs):
                last = index == len(box.inputs) - 1
                branch, trunk = (self._strokes.end, "   ") if last else (self._strokes.fork, self._strokes.down)
                yield from self._value(operand, below + branch, below + trunk)

    def _title(self, name: str, box: Box) -> str:
        names = [output for output in box.outputs if output in self._shared or output == name]
        given = f"{', '.join(names)} = " if self._shared.intersection(names) else ""
        return f"{given}{box.caption}{' ' + FOLDED if box.folded else ''}"


def beside(left: list[str], right: list[str], between: str) -> list[str]:
    """Return two drawings side by side."""
    width = max(map(len, left))
    rows = max(len(left), len(right))
    lines = zip(left + [""] * (rows - len(left)), right + [""] * (rows - len(right)), strict=True)
    return [f"{a:{width}}{between if not n else ' ' * len(between)}{b}".rstrip() for n, (a, b) in enumerate(lines)]
