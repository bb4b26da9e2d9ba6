"""A rule made concrete by a sample: shapes, element types, attributes and data of its inputs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onnxfuse.model.attributes import Attribute
from onnxfuse.model.budget import Budget
from onnxfuse.model.constants import run_nodes
from onnxfuse.prove.sides.draw import draw
from onnxfuse.rulebook.absence import present_lines
from onnxfuse.rulebook.fold import computed_from
from onnxfuse.rulebook.instantiate import instantiate
from onnxfuse.rulebook.load import ELEMENT_TYPES
from onnxfuse.rulebook.rule import REST, DimGuard, Rule, Sample, TextNode, is_group
from onnxfuse.rulebook.syntax.limits import MAX_SAMPLE_ELEMENTS

Shape = tuple[int, ...]


class Unusable(Exception):
    """A sample does not make a rule concrete; the message says what it lacks."""


@dataclass(frozen=True)
class Scene:
    """The inputs that are there, by name: `shapes`, `types` and `arrays`; which of them are weights, and attributes.

    `match_values` and `rewrite_values` are what `@name` stands for on either side, `kept` the attributes of labelled
    lines.  `main` is the element type of the rule's first type variable.
    """

    rule: Rule
    sample: Sample
    main: int
    shapes: Mapping[str, Shape]
    types: Mapping[str, int]
    arrays: Mapping[str, NDArray[Any]]
    weights: frozenset[str]
    match_values: Mapping[str, Attribute | None]
    rewrite_values: Mapping[str, Attribute | None]
    kept: Mapping[str, Mapping[str, Attribute]]

    @property
    def fed(self) -> tuple[str, ...]:
        """The inputs that are fed when the model runs."""
        return tuple(name for name in self.shapes if name not in self.weights)


def type_choices(rule: Rule) -> Iterator[dict[str, int]]:
    """Yield every way to choose element types for the type variables."""
    for chosen in product(*rule.types.values()):
        yield dict(zip(rule.types, chosen, strict=True))


def make_scene(rule: Rule, sample: Sample, types: Mapping[str, int], seed: int, more_weights: bool = False) -> Scene:
    """Return the scene of a sample; `more_weights`: all inputs but the first are weights, whatever the guards ask.

    Raises Unusable.
    """
    given = {n: v for n, v in sample.attributes.items() if not isinstance(v, Mapping)}
    values = {name: _attribute(rule, name, value) for name, value in given.items()}
    shapes, dims = _shapes(rule, sample, values)
    _check_sizes(shapes)
    elem_types = {name: _type(rule.inputs[name].type_name, types) for name in shapes}
    weights = {name for name in shapes if rule.inputs[name].const or (more_weights and name != next(iter(shapes)))}
    generator = np.random.default_rng(seed)
    arrays = {n: draw(shape, elem_types[n], rule.draw.get(n), generator) for n, shape in shapes.items()}
    defaults = {n: _attribute(rule, n, spec["default"]) for n, spec in rule.attributes.items() if "default" in spec}
    main = next(iter(types.values()))
    rewrite_values = {**dict.fromkeys(rule.attributes), **dims, **defaults, **values}
    rewrite_values |= _derived(rule, sample, main, arrays, weights, rewrite_values)
    match_values = {name: value for name, value in {**defaults, **values}.items() if name not in sample.absent}
    kept = {label: _plain_table(table) for label, table in sample.attributes.items() if isinstance(table, Mapping)}
    return Scene(rule, sample, main, shapes, elem_types, arrays, frozenset(weights), match_values, rewrite_values, kept)


def rewrite_lines(rule: Rule, present: Mapping[str, Any]) -> tuple[TextNode, ...]:
    """Return the lines of the rewrite, as they are with the inputs that are there."""
    return present_lines(rule, present)


def _type(name: str, types: Mapping[str, int]) -> int:
    return types.get(name) or ELEMENT_TYPES.get(name) or next(iter(types.values()))


def _attribute(rule: Rule, name: str, value: Any) -> Attribute:
    """Return a TOML value as the attribute that [attributes] says it is."""
    kind = rule.attributes.get(name, {}).get("type")
    if kind is None:
        raise Unusable(f"attribute '{name}' is given, but not declared in [attributes]")
    if kind in ("float", "floats"):
        return tuple(map(float, value)) if kind == "floats" else float(value)
    if kind == "type" and isinstance(value, str):
        return ELEMENT_TYPES[value]
    return _plain(value)


def _plain(value: Any) -> Attribute:
    if isinstance(value, str):
        return value.encode()
    return tuple(map(_plain, value)) if isinstance(value, list) else value  # type: ignore[return-value]


def _plain_table(table: Mapping[str, Any]) -> dict[str, Attribute]:
    return {name: _plain(value) for name, value in table.items()}


def _shapes(
    rule: Rule, sample: Sample, values: Mapping[str, Attribute]
) -> tuple[dict[str, Shape], dict[str, int | tuple[int, ...]]]:
    """Return the shape of each input that is there, and the dims and groups that the guards name."""
    named: dict[str, Shape] = {n: s for n, s in sample.shapes.items() if n not in rule.inputs}
    lengths = {n: len(s) for n, s in named.items()}
    for name, spec in rule.attributes.items():
        axes = values.get(name)
        if "covers" in spec and isinstance(axes, tuple):
            lengths[spec["covers"]] = len(axes)
    known = {n: s for n, s in sample.shapes.items() if n in rule.inputs and n not in sample.absent}
    for name, shape in sorted(known.items(), key=lambda item: len(rule.inputs[item[0]].dims or ())):
        _learn(rule.inputs[name].dims, shape, lengths, named)
    present = [name for name in rule.inputs if name not in sample.absent]
    shapes = {name: known[name] if name in known else _spelled(rule, name, named) for name in present}
    return shapes, {n: s if n in lengths and lengths[n] != -1 else s[0] for n, s in named.items()}


def _check_sizes(shapes: Mapping[str, Shape]) -> None:
    """Refuse large inputs before they are drawn: the length of a dim that a sample gives may be that of many."""
    for name, shape in shapes.items():
        if prod(shape) > MAX_SAMPLE_ELEMENTS:
            raise Unusable(
                f"'{name}' would have the shape {list(shape)}, more than {MAX_SAMPLE_ELEMENTS:,} elements: "
                "smaller ones show as much"
            )


def _learn(dims: tuple[DimGuard, ...] | None, shape: Shape, lengths: dict[str, int], named: dict[str, Shape]) -> None:
    """Learn what the names of dims mean from an input's shape; -1 as a length marks a single dim."""
    free = len(shape) - sum(1 for dim in dims or () if dim != REST and not is_group(dim))
    groups = [str(dim).removesuffix(REST) for dim in dims or () if is_group(dim)]
    for group in groups:
        lengths.setdefault(group, free)
        free -= lengths[group]
    position = 0
    for dim in dims or ():
        group = str(dim).removesuffix(REST)
        width = max(0, free) if dim == REST else lengths[group] if is_group(dim) else 1
        if isinstance(dim, str) and dim not in (REST, "_"):
            named.setdefault(group, shape[position : position + width])
            if not is_group(dim):
                lengths.setdefault(group, -1)
        position += width


def _spelled(rule: Rule, name: str, named: Mapping[str, Shape]) -> Shape:
    """Return the shape of an input that a sample does not give, from the dims its guard names."""
    dims = rule.inputs[name].dims
    if dims is None:
        raise Unusable(f"the sample gives no shape for '{name}'")
    shape: list[int] = []
    for dim in dims:
        if isinstance(dim, int):
            shape.append(dim)
        elif (found := named.get(dim.removesuffix(REST))) is not None:
            shape.extend(found)
        else:
            raise Unusable(f"the sample gives no shape for '{name}' and no value for its dim '{dim}'")
    return tuple(shape)


def _derived(
    rule: Rule,
    sample: Sample,
    main: int,
    arrays: Mapping[str, NDArray[Any]],
    weights: set[str],
    values: Mapping[str, Attribute | None],
) -> dict[str, Attribute]:
    """Return the attributes that are the values of folded tensors."""
    names = sorted(set(rule.derive.values()))
    if not names:
        return {}
    lines = rewrite_lines(rule, arrays)
    constant = computed_from(lines, weights)
    if missing := [name for name in names if name not in constant]:
        raise Unusable(f"[derive] reads '{missing[0]}', which does not fold to a constant")
    folding = [line for line in lines if constant.issuperset(line.outputs)]
    nodes = instantiate(folding, values, main, rule.rewrite.constants, wide=True)
    feeds = {name: arrays[name] for name in weights}
    try:
        results = run_nodes(nodes, feeds, names, rule.rewrite.opset, Budget.of(feeds.values()))
    except Exception as error:  # weights that do not fit each other, or too much of them
        raise Unusable(f"what [derive] reads cannot be computed: {error}") from error
    found = dict(zip(names, results, strict=True))
    return {attribute: _plain(found[source].tolist()) for attribute, source in rule.derive.items()}
