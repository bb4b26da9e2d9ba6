"""The guards of a rule, checked on a match: element types, constness, ranks, dims, one-way broadcast."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TypeAlias

from onnx import TensorProto

from onnxfuse.model.attributes import Attribute
from onnxfuse.model.constants import above
from onnxfuse.model.graph import Dims, Tensor, Value
from onnxfuse.model.shapes import made_up
from onnxfuse.rulebook.rule import ANY, ONES, REST, DimGuard, Guard, Rule, is_group
from onnxfuse.rulebook.syntax.element_types import ELEMENT_TYPES

# A dim as far as it is known: a number, a symbol, or (value, axis) for one that is equal to itself only.
Known: TypeAlias = int | str | tuple[Tensor, int]


class Conditions:
    """Checks the guards of a rule on the values bound to its inputs; collects what the names of dims and types mean."""

    def __init__(self, rule: Rule) -> None:
        self._rule = rule
        self._lengths: dict[str, int] = {}
        self.dims: dict[str, Known] = {}
        self.types: dict[str, int] = {}

    def misses(
        self, bindings: Mapping[str, Tensor | None], attributes: Mapping[str, Attribute | None]
    ) -> Iterator[str]:
        """Yield a sentence for each guard that does not hold."""
        bound = [(name, guard, bindings.get(name)) for name, guard in self._rule.inputs.items()]
        yield from self._attribute_misses(attributes)
        self._measure_groups(bound)
        for name, guard, value in bound:
            if value is None:
                if not guard.optional:
                    yield f"{name} is absent"
                continue
            if guard.const and not value.constant:
                yield f"{name} ('{value.name}') is not constant"
            if guard.own and (shared := _shared(value)):
                yield f"{name} ('{value.name}') would be there twice, since '{shared}' is read elsewhere, too"
            if value.dims is not None and 0 in value.dims:
                yield f"{name} ('{value.name}') is empty, which not every fused operator takes"
            yield from self._type_misses(name, guard, value)
            if guard.dims is not None:
                yield from self._dim_misses(name, guard.dims, value)
        for name, guard, value in bound:
            if value is not None and guard.onto is not None:
                yield from self._onto_misses(name, guard.onto, value)

    def _attribute_misses(self, attributes: Mapping[str, Attribute | None]) -> Iterator[str]:
        """Check axes that must cover a group of trailing dims (`covers = "V"`), and types that must be `among` some."""
        for name, spec in self._rule.attributes.items():
            axes = attributes.get(name)
            if "among" in spec and axes not in [ELEMENT_TYPES[choice] for choice in spec["among"]]:
                yield f"'{name}' is not one of {', '.join(spec['among'])}"
            if "covers" in spec and isinstance(axes, tuple):
                self._lengths[spec["covers"]] = len(axes)
                if sorted(axes) != list(range(-len(axes), 0)):
                    yield f"the axes {list(axes)} are not the last dims, or the rank is not known"

    def _measure_groups(self, bound: Iterable[tuple[str, Guard, Tensor | None]]) -> None:
        """Learn how many dims a group has from a value in which only it can have several: `"T[V...]"`, `"T[M, V...]"`.

        A value that is nothing else tells before the others.
        """
        for _, guard, value in sorted(bound, key=lambda item: len(item[1].dims or ())):
            groups = [str(dim).removesuffix(REST) for dim in guard.dims or () if is_group(dim)]
            if guard.dims and groups and REST not in guard.dims and value is not None and value.dims is not None:
                self._lengths.setdefault(groups[0], max(0, len(value.dims) - len(guard.dims) + 1))

    def _type_misses(self, name: str, guard: Guard, value: Tensor) -> Iterator[str]:
        wanted, actual = guard.type_name, value.elem_type
        if wanted == "any":
            return
        if actual is None:
            yield f"the element type of {name} ('{value.name}') is not known"
        elif wanted in self._rule.types:
            expected = self.types.setdefault(wanted, actual)
            if actual not in self._rule.types[wanted]:
                yield f"{name} ('{value.name}') is {_type_name(actual)}, for which the rule is not proven"
            elif actual != expected:
                yield f"{name} ('{value.name}') is {_type_name(actual)}, the others are {_type_name(expected)}"
        elif ELEMENT_TYPES[wanted] != actual:
            yield f"{name} ('{value.name}') is {_type_name(actual)}, not {wanted}"

    def _dim_misses(self, name: str, guards: tuple[DimGuard, ...], value: Tensor) -> Iterator[str]:
        if value.dims is None:
            yield f"the rank of {name} ('{value.name}') is not known"
            return
        known = known_dims(value)
        pairs = self._align(guards, known)
        if pairs is None:
            yield f"{name} ('{value.name}') has shape {show(value.dims)}, not [{', '.join(map(str, guards))}]"
            return
        for guard, dim in pairs:
            expected = self._meaning(guard, dim)
            if expected != dim:
                yield (
                    f"a dim of {name} ('{value.name}', {show(value.dims)}) is {_show(dim)}, "
                    f"not {guard} = {_show(expected)}"
                )

    def _align(self, guards: tuple[DimGuard, ...], dims: tuple[Known, ...]) -> list[tuple[DimGuard, Known]] | None:
        """Pair dim guards with dims, groups and `...` standing for as many as there are; None if they do not fit."""
        spelled = self._spelled(guards)
        if REST in spelled:
            at = spelled.index(REST)
            spelled[at : at + 1] = [ANY] * (len(dims) - len(spelled) + 1)
        return list(zip(spelled, dims, strict=True)) if len(spelled) == len(dims) else None

    def _spelled(self, guards: tuple[DimGuard, ...]) -> list[DimGuard]:
        """Return dim guards with each group spelled out as the dims it stands for."""
        spelled: list[DimGuard] = []
        for guard in guards:
            if isinstance(guard, str) and guard.startswith(ONES):
                spelled += [1] * self._lengths.get(guard.removeprefix(ONES), 0)
                continue
            group = str(guard).removesuffix(REST)
            names = [f"{group}.{index}" for index in range(self._lengths.get(group, 0))]
            spelled += names if is_group(guard) else [guard]
        return spelled

    def known(self) -> dict[str, int | tuple[int, ...]]:
        """Return the dims and groups that are whole numbers: a rewrite can use them as attributes."""
        found: dict[str, int | tuple[int, ...]] = {n: d for n, d in self.dims.items() if isinstance(d, int)}
        for name in self._lengths:
            dims = [self.dims.get(f"{name}.{index}") for index in range(self._lengths[name])]
            if all(isinstance(dim, int) for dim in dims):
                found[name] = tuple(dim for dim in dims if isinstance(dim, int))
        return found

    def _meaning(self, guard: DimGuard, dim: Known) -> Known:
        """Return what a dim guard stands for, which a name takes from the first dim it meets."""
        if isinstance(guard, int):
            return guard
        return dim if guard == ANY else self.dims.setdefault(guard, dim)

    def _onto_misses(self, name: str, guards: tuple[DimGuard, ...], value: Tensor) -> Iterator[str]:
        target = [self.dims.get(guard, guard) if isinstance(guard, str) else guard for guard in self._spelled(guards)]
        if value.dims is None:
            yield f"the rank of {name} ('{value.name}') is not known"
            return
        known = known_dims(value)
        ours = target[len(target) - len(known) :]
        if len(known) > len(target) or any(a not in (1, b) and b != ANY for a, b in zip(known, ours, strict=True)):
            yield (
                f"{name} ('{value.name}'): {show(value.dims)} does not broadcast one way to "
                f"[{', '.join(map(_show, target))}]"
            )


def _shared(value: Tensor) -> str:
    """Return the name of what several nodes read among a value and the weights it is made of; "" if there is none."""
    made_of = above(value) if isinstance(value, Value) else [value]
    return next((v.name for v in made_of if v.elem_type == value.elem_type and len(set(v.outputs)) > 1), "")


def known_dims(value: Tensor) -> tuple[Known, ...]:
    """Return the dims of a value whose rank is known; a dim of which nothing is known equals itself only."""
    assert value.dims is not None
    return tuple((value, axis) if dim is None else dim for axis, dim in enumerate(value.dims))


def show(dims: Dims) -> str:
    """Return dims as text: `[2, n, ?]`."""
    if dims is None:
        return "[...]"
    return "[" + ", ".join("?" if dim is None or made_up(dim) else str(dim) for dim in dims) + "]"


def _show(dim: Known) -> str:
    return "an unknown dim" if isinstance(dim, tuple) or made_up(dim) else str(dim)


def _type_name(elem_type: int) -> str:
    return str(TensorProto.DataType.Name(elem_type)).lower()
