"""Inputs that the original accepts: two draws, at two sizes of every open dimension where it takes two."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from onnxfuse.validate.inputs import Inputs
from onnxfuse.validate.sessions import Refused, Session, Value
from onnxfuse.validate.sizes import Variable, assignments

_MOST_TRIES = 150
_MOST_HINTS = 6
_JOINT_MOVES = 4
_MOVES = 6
_SEEDS = 4


@dataclass(frozen=True)
class Case:
    """One set of inputs and what the original makes of it."""

    seed: int
    chosen: Mapping[str, int]
    shapes: Mapping[str, tuple[int, ...]]
    feeds: Mapping[str, Value]
    outputs: Mapping[str, Value]


class Search:
    """Runs the original on drawn inputs until it has accepted enough of them."""

    def __init__(self, session: Session, readings: list[Inputs], seed: int, tell: Callable[[int], None]) -> None:
        self._session = session
        self._readings = readings
        self._inputs = readings[0]
        self._seed = seed
        self._tell = tell
        self._tries = 0
        self.refusals: list[str] = []
        self.notes: list[str] = []

    def cases(self) -> list[Case]:
        """Return two cases or more (one if the original refuses every other draw).

        Raises Refused with the reason for the likeliest sizes if none is accepted, or if a dimension called a batch
        takes no size but 1; CannotDraw for inputs of a type that cannot be made up.
        """
        first = self._first()
        found = [first, *self._others(first)]
        if len(found) == 1:
            found.extend(self._try_seeds(first.chosen, range(self._seed + 1, self._seed + _SEEDS)))
        if len(found) == 1:
            self.notes.append("the original accepts one draw of inputs only")
        return found

    def _first(self) -> Case:
        for inputs in self._readings:
            self._inputs = inputs
            case = self._first_of(assignments(inputs.variables), _MOST_TRIES)
            if case is None and inputs.variables and (hinted := self._hinted(inputs)):
                case = self._first_of(assignments(hinted), _MOST_TRIES)
            if case is not None:
                return case
        raise Refused(self.refusals[0] if self.refusals else "no inputs could be made")

    def _first_of(self, choices: Iterable[dict[str, int]], most: int) -> Case | None:
        for chosen, _ in zip(choices, range(most), strict=False):
            case = self._try(chosen, self._seed)
            if case is not None:
                return case
        return None

    def _hinted(self, inputs: Inputs) -> list[Variable]:
        """Return the variables with the numbers that onnxruntime's refusals name as their first candidates."""
        numbers = map(int, re.findall(r"(?<![\w.])\d{1,5}(?![\w.])", " ".join(self.refusals[:1])))
        hints = tuple(dict.fromkeys(number for number in numbers if number > 1))[:_MOST_HINTS]
        if not hints:
            return []
        return [
            replace(choice, candidates=tuple(dict.fromkeys((choice.candidates[0], *hints, *choice.candidates[1:]))))
            for choice in inputs.variables
        ]

    def _try(self, chosen: Mapping[str, int], seed: int) -> Case | None:
        self._tries += 1
        self._tell(self._tries)
        feeds = self._inputs.draw(chosen, seed)
        try:
            outputs = self._session.run(feeds)
        except Refused as refused:
            self.refusals.append(str(refused))
            return None
        names = [port.name for port in self._session.outputs]
        return Case(seed, chosen, self._inputs.shapes_at(chosen), feeds, dict(zip(names, outputs, strict=True)))

    def _try_seeds(self, chosen: Mapping[str, int], seeds: Iterable[int]) -> Iterator[Case]:
        cases = (self._try(chosen, seed) for seed in seeds)
        yield from (case for case in [next((case for case in cases if case is not None), None)] if case is not None)

    def _others(self, first: Case) -> list[Case]:
        """Return cases in which every variable that can differs from the first case."""
        choices = [choice for choice in self._inputs.variables if len(choice.candidates) > 1]
        if not choices:
            return []
        for moved in _joint_moves(choices, first.chosen):
            case = self._try({**first.chosen, **moved}, self._seed + 1)
            if case is not None:
                return [case]
        return self._moved_alone(choices, first)

    def _moved_alone(self, choices: list[Variable], first: Case) -> list[Case]:
        movers: list[Case] = []
        for group in _groups(choices, first.chosen):
            case = self._moved(group, first)
            if case is not None:
                movers.append(case)
            elif len(group) > 1:
                movers.extend(self._singly(group, first))
            else:
                self._report_fixed(group[0], first.chosen[group[0].name])
        return self._together(movers, first)

    def _singly(self, group: list[Variable], first: Case) -> Iterator[Case]:
        for choice in group:
            case = self._moved([choice], first)
            if case is not None:
                yield case
            else:
                self._report_fixed(choice, first.chosen[choice.name])

    def _together(self, movers: list[Case], first: Case) -> list[Case]:
        """Return one case with all moves, or one case for each where they do not go together."""
        moves = {name: value for case in movers for name, value in case.chosen.items() if value != first.chosen[name]}
        if len(movers) > 1 and (case := self._try({**first.chosen, **moves}, self._seed + 1)) is not None:
            return [case]
        return movers

    def _moved(self, group: list[Variable], first: Case) -> Case | None:
        """Give a group of variables another common value."""
        candidates, now = group[0].candidates, first.chosen[group[0].name]
        place = candidates.index(now)
        # The candidates before this one were refused at least once already.
        others = (*candidates[place + 1 :], *candidates[:place])
        moves = ({**first.chosen, **{choice.name: value for choice in group}} for value in others[:_MOVES])
        return next((case for chosen in moves if (case := self._try(chosen, self._seed + 1)) is not None), None)

    def _report_fixed(self, choice: Variable, value: int) -> None:
        if choice.promises_batches and value == 1:
            raise Refused(f"dimension {choice.name!r} takes no size but 1: {self.refusals[-1]}")
        what = "input" if choice.role == "value" else "dimension"
        self.notes.append(f"{what} {choice.name!r} runs at {value} only")


def _groups(choices: list[Variable], chosen: Mapping[str, int]) -> list[list[Variable]]:
    """Put together what seems to be one dimension under several names: same role, same size."""
    groups: dict[tuple[str, int | str], list[Variable]] = {}
    for choice in choices:
        alike = choice.name if choice.role in ("value", "other") else chosen[choice.name]
        groups.setdefault((choice.role, alike), []).append(choice)
    return list(groups.values())


def _joint_moves(choices: list[Variable], chosen: Mapping[str, int]) -> Iterator[dict[str, int]]:
    """Yield assignments that give every variable another value."""
    others = [[value for value in choice.candidates if value != chosen[choice.name]] for choice in choices]
    for step in range(_JOINT_MOVES):
        yield {choice.name: values[min(step, len(values) - 1)] for choice, values in zip(choices, others, strict=True)}
