"""The conditions of a rule in words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from onnx import TensorProto

from onnxfuse.report.rules.diagram import attribute, caption
from onnxfuse.rulebook.rule import ANY, REST, DimGuard, Guard, Rule, Sample, Text, is_group

# What the engine sees to for every rule.
ALWAYS = (
    "An attribute that is not mentioned has its default; an output that is not mentioned is not used.",
    "Nothing else reads a value between the operators.",
    "Element types and shapes of the outputs stay as they are.",
)


def listed(items: Sequence[str], last: str = "and") -> str:
    """Return `a, b and c`."""
    return " ".join(filter(None, (", ".join(items[:-1]), last, items[-1]))) if len(items) > 1 else "".join(items)


def opsets(rule: Rule) -> str:
    """Return the opsets for which a rule is verified, neighbours drawn together: `7, 9, 13-15`."""
    runs: list[list[int]] = []
    for opset in rule.verified:
        if runs and opset == runs[-1][-1] + 1:
            runs[-1].append(opset)
        else:
            runs.append([opset])
    return ", ".join(f"{run[0]}-{run[-1]}" if len(run) > 2 else ", ".join(map(str, run)) for run in runs)


def type_names(elem_types: Sequence[int]) -> list[str]:
    """Return element types by the names that ONNX text has for them."""
    return [str(TensorProto.DataType.Name(number)).lower() for number in elem_types]


def types(rule: Rule) -> str:
    """Return what the type variables of a rule range over: `T: float, float16`."""
    return "; ".join(f"{name}: {', '.join(type_names(numbers))}" for name, numbers in rule.types.items())


def input_conditions(rule: Rule) -> dict[str, str]:
    """Return for each input of a rule what must hold of it."""
    return {name: _guard(name, guard, rule) for name, guard in rule.inputs.items()}


def _guard(name: str, guard: Guard, rule: Rule) -> str:
    parts = ["constant"] if guard.const else []
    parts += ["read by nobody else"] if guard.own else []
    parts.append({"any": "any type"}.get(guard.type_name, guard.type_name))
    parts.append(_shape(guard.dims))
    if guard.onto is not None:
        parts.append(f"broadcasts one way to {_dims(guard.onto)}")
    if guard.optional:
        node = rule.absent.get(name)
        instead = f", then {caption(node)} ({', '.join(node.inputs)}) stands for it" if node else ""
        parts.append(f"may be absent{instead}")
    return ", ".join(parts)


def _shape(dims: tuple[DimGuard, ...] | None) -> str:
    if dims is None:
        return "any shape"
    if not dims:
        return "a scalar"
    fixed = sum(dim != REST and not is_group(dim) for dim in dims)
    rank = f"rank {fixed}" if fixed == len(dims) else f"rank {fixed} or more" if fixed else "any rank"
    return f"{rank} {_dims(dims)}"


def _dims(dims: Sequence[DimGuard]) -> str:
    return "[" + ", ".join("any" if dim == ANY else str(dim) for dim in dims) + "]"


def further_conditions(rule: Rule) -> list[str]:
    """Return what else must hold for a rule: equal dims, attributes, numbers; a sentence each."""
    return [*_equal_dims(rule), *_kept(rule), *_attributes(rule), *_requirements(rule), *_numbers(rule)]


def _equal_dims(rule: Rule) -> Iterator[str]:
    users: dict[str, list[str]] = {}
    for name, guard in rule.inputs.items():
        for dim in dict.fromkeys((*(guard.dims or ()), *(guard.onto or ()))):
            if isinstance(dim, str) and dim not in (ANY, REST):
                users.setdefault(dim, []).append(name)
    for dim, names in users.items():
        if len(names) > 1:
            kind = "the same dims" if is_group(dim) else "the same dim"
            yield f"{dim.removesuffix(REST)} is {kind} in {listed(names)}."


def _kept(rule: Rule) -> Iterator[str]:
    for label, op in rule.keep.items():
        yield f"The {op} labelled [{label}] may have any other attributes, and keeps them."


def _attributes(rule: Rule) -> Iterator[str]:
    for name, spec in rule.attributes.items():
        if name in rule.derive:
            yield f"@{name} is the value of '{rule.derive[name]}', computed when the rule is applied."
        elif words := [*_attribute(spec)]:
            yield f"@{name} {listed(words)}."


def _attribute(spec: Mapping[str, Any]) -> Iterator[str]:
    if "among" in spec:
        yield f"is {listed(spec['among'], 'or')}"
    if "covers" in spec:
        yield f"names just the dims {spec['covers']}, which are the last ones"
    if "range" in spec:
        yield f"lies between {attribute(spec['range'][0])} and {attribute(spec['range'][1])}"


def _requirements(rule: Rule) -> Iterator[str]:
    for requirement in rule.require:
        yield f"It must hold that {requirement.why}."


def _numbers(rule: Rule) -> Iterator[str]:
    for name, spec in rule.rewrite.constants.items():
        if spec.rtol is not None:
            yield f"The number {name} may differ by {spec.rtol:g} of itself."


def sample(found: Sample, rule: Rule) -> str:
    """Return the shapes and attributes of a sample in one line."""
    shapes = found.shapes.items()
    parts = [f"{name} {attribute(dims)}" if name in rule.inputs else f"{name} = {dims[0]}" for name, dims in shapes]
    parts += [f"{name} = {attribute(value)}" for name, value in _flat(found.attributes)]
    return ", ".join(parts) + (f"; without {listed(found.absent)}" if found.absent else "")


def _flat(table: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for name, value in table.items():
        if isinstance(value, Mapping):
            yield from ((f"{name}.{inner}", item) for inner, item in value.items())
        else:
            yield name, value


def forms_called(texts: Sequence[Text], forms: Mapping[str, tuple[Text, ...]]) -> list[str]:
    """Return the forms that texts call, and those that these call, in order of first use."""
    found: dict[str, None] = {}
    waiting = [node.op for text in texts for node in text.nodes if node.domain == "form"]
    while waiting:
        name = waiting.pop(0)
        if name not in found:
            found[name] = None
            waiting += [node.op for text in forms[name] for node in text.nodes if node.domain == "form"]
    return list(found)
