"""Facts about ONNX operators that matching and rewriting need, read from the onnx schemas where those say them.

Only what no schema says is written down here: which argument an attribute became, which arguments are axes, which
operators commute or broadcast, and which are not pure functions of their inputs.
"""

from __future__ import annotations

from functools import cache
from types import MappingProxyType
from typing import Final

import onnx
from onnx import defs

from onnxfuse.model import attributes
from onnxfuse.model.attributes import Attribute

# Operators whose two operands may change places without changing the value.
COMMUTATIVE: Final = frozenset(
    {"Add", "Mul", "And", "Or", "Xor", "Equal", "Min", "Max", "Sum", "BitwiseAnd", "BitwiseOr"}
)

# Operators whose operands are broadcast to each other.
BROADCASTING: Final = frozenset({
    "Add", "Sub", "Mul", "Div", "Pow", "Max", "Min", "Sum", "Mean", "Where", "PRelu", "Mod", "BitShift",
    "Equal", "Less", "LessOrEqual", "Greater", "GreaterOrEqual", "And", "Or", "Xor",
    "BitwiseAnd", "BitwiseOr", "BitwiseXor",
})  # fmt: skip

# Operators that give another value each time, or depend on the mode they run in.
IMPURE: Final = frozenset({
    "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike", "Multinomial", "Bernoulli", "Dropout",
})  # fmt: skip

# Operators whose result is computed at run time even where it never varies: a quantized weight is to stay quantized.
UNFOLDED: Final = frozenset({"DequantizeLinear"})

# Arguments that were attributes before the given opset: operator -> {input index: (attribute, first opset as input)}.
_REDUCTIONS: Final = (
    "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceL1", "ReduceL2",
    "ReduceLogSum", "ReduceLogSumExp", "ReduceSumSquare",
)  # fmt: skip
MOVED: Final[MappingProxyType[str, dict[int, tuple[str, int]]]] = MappingProxyType({
    **{op: {1: ("axes", 18)} for op in _REDUCTIONS},
    "ReduceSum": {1: ("axes", 13)},
    "Squeeze": {1: ("axes", 13)},
    "Unsqueeze": {1: ("axes", 13)},
    "Split": {1: ("split", 13)},
    "Clip": {1: ("min", 11), 2: ("max", 11)},
    "Pad": {1: ("pads", 11), 2: ("value", 11)},
    "Slice": {1: ("starts", 10), 2: ("ends", 10), 3: ("axes", 10)},
    "Dropout": {1: ("ratio", 12)},
    "TopK": {1: ("k", 10)},
    "Reshape": {1: ("shape", 5)},
    "Tile": {1: ("repeats", 6)},
})  # fmt: skip

# Names of attributes and arguments that count dimensions, so that a negative one counts from the last.
AXES: Final = frozenset({"axis", "axes"})


def commutes(op: str, domain: str = "") -> bool:
    """Tell whether the two operands of an operator may change places."""
    return not domain and op in COMMUTATIVE


def domain_of(domain: str | None) -> str:
    """Return the canonical name of an operator domain: "ai.onnx" is the default domain ""."""
    return "" if domain in (None, "ai.onnx") else str(domain)


@cache
def schema(op: str, opset: int, domain: str = "") -> defs.OpSchema | None:
    """Return the schema of an operator at an opset, or None if the installed onnx does not know it there."""
    try:
        return defs.get_schema(op, opset, domain)
    except defs.SchemaError:
        return None


@cache
def since(op: str, opset: int, domain: str = "") -> int:
    """Return the version at which the operator last changed at or before `opset`; 0 if it does not exist there."""
    found = schema(op, opset, domain)
    return 0 if found is None or found.deprecated else found.since_version


@cache
def defaults(op: str, opset: int, domain: str = "") -> MappingProxyType[str, Attribute | None]:
    """Return the attributes of an operator at an opset with their defaults (None: it has none)."""
    found = schema(op, opset, domain)
    return MappingProxyType({} if found is None else {n: _default(a) for n, a in found.attributes.items()})


def _default(attribute: defs.OpSchema.Attribute) -> Attribute | None:
    proto = attribute.default_value
    return attributes.read(proto) if proto.type != onnx.AttributeProto.UNDEFINED else None


def moved(op: str, opset: int, domain: str = "") -> dict[int, str]:
    """Return which inputs of an operator are still attributes at `opset`: {input index: attribute name}."""
    if domain:
        return {}
    return {index: name for index, (name, first) in MOVED.get(op, {}).items() if opset < first}


def argument_name(op: str, index: int) -> str:
    """Return the name of the attribute that input `index` of `op` once was; "" if it always was an input."""
    return MOVED.get(op, {}).get(index, ("", 0))[0]


def is_pure(op: str, opset: int, domain: str = "") -> bool:
    """Tell whether a node is known to be a function of its inputs and attributes only, with tensors in and out."""
    return domain == "" and op not in IMPURE and since(op, opset) > 0
