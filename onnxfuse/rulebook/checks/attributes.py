"""What a rule does with its attributes, and with numbers that its texts cannot hold."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

import numpy as np
from onnx import TensorProto, defs

from onnxfuse.model import schema
from onnxfuse.rulebook.checks.finding import Found, texts
from onnxfuse.rulebook.rule import Bound, Rule, Rulebook, Text

_Type = defs.OpSchema.AttrType
# The attribute types of operators for those of [attributes].
_TYPES: Final[Mapping[str, defs.OpSchema.AttrType]] = {
    "float": _Type.FLOAT, "int": _Type.INT, "string": _Type.STRING, "type": _Type.INT,
    "floats": _Type.FLOATS, "ints": _Type.INTS, "strings": _Type.STRINGS,
}  # fmt: skip


def attributes(rule: Rule, book: Rulebook) -> Iterator[Found]:
    """Yield attributes that are not declared as they are used, or whose loss in the rewrite would not show."""
    yield from _undeclared(rule)
    yield from _of_another_type(rule)
    matched = set().union(*(_bound(text) for text in rule.matches))
    for name in sorted(matched & set(rule.attributes)):
        spec = rule.attributes[name]
        given = [sample.attributes[name] for sample in rule.samples if name in sample.attributes]
        if not any(value != spec.get("default") for value in given) and "among" not in spec:
            fix = "give it one in a [[sample]], large enough to be seen"
            yield Found(("attributes", name), f"no sample gives '{name}' another value than its default", fix)


def _undeclared(rule: Rule) -> Iterator[Found]:
    named = {
        str(dim).rstrip(".") for guard in rule.inputs.values() for dim in (*(guard.dims or ()), *(guard.onto or ()))
    }
    known = named | set(rule.derive)
    matched = known.union(*(_bound(text) for text in rule.matches))
    for text, where in texts(rule):
        for name in sorted(_bound(text) - set(rule.attributes) - known):
            yield Found(where, f"'@{name}' is not declared", f"add {name} = {{ type = ... }} to [attributes]")
    for name in sorted(_bound(rule.rewrite) & set(rule.attributes) - matched):
        fix = "bind it in the match, or write the value itself"
        yield Found(("rewrite", "text"), f"no match text binds '@{name}', which the rewrite uses", fix)


def _of_another_type(rule: Rule) -> Iterator[Found]:
    for text, where in texts(rule):
        for node in text.nodes:
            found = schema.schema(node.op, text.opset, node.domain)
            for name, value in node.attributes.items():
                if not isinstance(value, Bound) or value.name not in rule.attributes or found is None:
                    continue
                declared, spec = rule.attributes[value.name].get("type"), found.attributes.get(name)
                if declared and spec is not None and spec.type != _TYPES[declared]:
                    wanted = next(kind for kind, type_ in _TYPES.items() if type_ == spec.type)
                    message = f"'@{value.name}' is declared as {declared}, '{name}' of {node.op} is of type {wanted}"
                    yield Found(where, message, f'write type = "{wanted}" in [attributes]')


def _bound(text: Text) -> set[str]:
    return {value.name for node in text.nodes for value in node.attributes.values() if isinstance(value, Bound)}


def literals(rule: Rule, book: Rulebook) -> Iterator[Found]:
    """Yield numbers that ONNX text, which holds them in 32 bits, changes for a rule that is for double, too."""
    if TensorProto.DOUBLE not in next(iter(rule.types.values())):
        return
    for text, where in texts(rule):
        for node in text.nodes:
            value = node.attributes.get("value_float")
            spec = text.constants.get(node.outputs[0])
            if node.op != "Constant" or not isinstance(value, float) or (spec and spec.value is not None):
                continue
            written = float(str(np.float32(value)))
            if written != value:
                name = node.outputs[0]
                message = f"text '{text.name}': '{name}' is {value!r} here, not {written!r}: text holds 32 bits"
                yield Found(where, message, f"add {name} = {{ value = {written!r} }} to [constants]")
