"""The inputs of a model: what is open about them, and one set of values for each choice."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from onnxfuse.model.file import ModelFile
from onnxfuse.validate.bodies import Bodies
from onnxfuse.validate.draw import draw, dtype_of
from onnxfuse.validate.facts import Facts, facts_of
from onnxfuse.validate.sessions import Port, Value
from onnxfuse.validate.sizes import Shape, Variable, declared_shape, symbols_of, variables

# An input without a declared rank is tried at these.
_RANKS = (2, 4, 3, 1, 0)
_SAMPLE_RATES = (16000, 8000)
_SCALARS: dict[str, tuple[int, ...]] = {"axis": (0,), "expansion": (1,), "shape": (-1,), "start": (0,), "step": (1,)}


@dataclass(frozen=True)
class Inputs:
    """All inputs that must be fed, under one reading of their ranks."""

    ports: tuple[Port, ...]
    shapes: Mapping[str, Shape]
    facts: Mapping[str, Facts]
    variables: tuple[Variable, ...]

    def shapes_at(self, chosen: Mapping[str, int]) -> dict[str, tuple[int, ...]]:
        """Return the shape of each input (of a sequence: of its elements)."""
        return {port.name: self.shapes[port.name].at(chosen) for port in self.ports}

    def draw(self, chosen: Mapping[str, int], seed: int) -> dict[str, Value]:
        """Return one value for each input; raises CannotDraw."""
        shapes = self.shapes_at(chosen)
        return {
            port.name: draw(port.name, port.type, shapes[port.name], self.facts[port.name], chosen, seed)
            for port in self.ports
        }


def read_inputs(model: ModelFile, ports: Sequence[Port], bodies: Bodies) -> list[Inputs]:
    """Return the inputs of a model, once for each rank to try where a rank is not declared."""
    declared = {value.name: declared_shape(value) for value in model.proto.graph.input}
    known = {port.name: declared.get(port.name) for port in ports}
    ranks = _RANKS if None in known.values() else (0,)
    return [_at_rank(ports, _ranked(known, rank), bodies) for rank in ranks]


def _ranked(known: Mapping[str, Shape | None], rank: int) -> dict[str, Shape]:
    return {
        name: shape or Shape(name, tuple(f"{name}[{axis}]" for axis in range(rank))) for name, shape in known.items()
    }


def _at_rank(ports: Sequence[Port], ranked: Mapping[str, Shape], bodies: Bodies) -> Inputs:
    shapes = _with_totals(ranked)
    facts = {name: facts_of(bodies, name, len(shape.dims)) for name, shape in shapes.items()}
    scalars = [choice for port in ports if (choice := _scalar(port, shapes[port.name], facts[port.name]))]
    return Inputs(tuple(ports), shapes, facts, (*variables(list(shapes.values()), facts), *scalars))


def _scalar(port: Port, shape: Shape, facts: Facts) -> Variable | None:
    """Return the choice of a value for an integer scalar, unless it is an index or a mask."""
    dtype = dtype_of(port.type)
    if dtype is None or dtype.kind not in "iu" or shape.dims not in ((), (1,)) or facts.roles & {"index", "mask"}:
        return None
    values: list[int] = list(dict.fromkeys(facts.constants))
    if re.search(r"^sr$|rate", port.name, re.IGNORECASE):
        values.extend(_SAMPLE_RATES)
    elif values:
        values.extend(value + step for value in list(values) for step in (1, -1))
    role = next((role for role in _SCALARS if role in facts.roles), "")
    values = values or list(_SCALARS.get(role, (2, 3, 1, 4, 8, 0)))
    return Variable(port.name, tuple(dict.fromkeys(values)), "value")


def _with_totals(shapes: Mapping[str, Shape]) -> dict[str, Shape]:
    """Read a symbol like total_sequence_length as past + sequence, where each is there once."""
    dims = {dim for shape in shapes.values() for dim in shape.dims if isinstance(dim, str)}
    symbols = sorted({symbol for dim in dims for symbol in symbols_of(dim)})
    totals = [symbol for symbol in symbols if re.search("total", symbol, re.IGNORECASE)]
    pasts = [symbol for symbol in symbols if "past" in symbol.lower() and symbol not in totals]
    news = [symbol for symbol in symbols if "seq" in symbol.lower() and symbol not in {*totals, *pasts}]
    if len(pasts) != 1 or len(news) != 1:
        return dict(shapes)
    sum_of_both = f"{pasts[0]} + {news[0]}"
    return {
        name: Shape(name, tuple(sum_of_both if dim in totals else dim for dim in shape.dims))
        for name, shape in shapes.items()
    }
