"""What a rule is, once read: two ONNX texts with one signature, and what must hold of the values between them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

from onnxfuse.model.attributes import Attribute

# The domain in which a match text calls a form.
FORM = "form"

REST = "..."  # any number of dims
ANY = "_"  # one dim, whatever it is
ONES = "1*"  # before the name of a group: as many ones as that has dims

DimGuard: TypeAlias = int | str


def is_group(dim: DimGuard) -> bool:
    """Tell whether a dim guard is a named group, `V...`."""
    return isinstance(dim, str) and dim.endswith(REST) and dim != REST


@dataclass(frozen=True)
class Bound:
    """`@name` in a text: an attribute of the rule, taken from the match and given to the rewrite."""

    name: str


@dataclass(frozen=True, eq=False)
class TextNode:
    """One line of a text: an operator, the names it reads ("" for absent) and gives, and its attributes."""

    op: str
    domain: str
    label: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: Mapping[str, Attribute | Bound]


@dataclass(frozen=True)
class ConstantSpec:
    """How near a literal of the match must be (relative), and its value to 64 bits where the text cannot hold that."""

    rtol: float | None = None
    value: float | None = None


@dataclass(frozen=True)
class Text:
    """One side of a rule, or one spelling of a form: an ONNX function at an opset."""

    name: str
    opset: int
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    nodes: tuple[TextNode, ...]
    constants: Mapping[str, ConstantSpec] = field(default_factory=dict)


@dataclass(frozen=True)
class Guard:
    """What must hold of an input: `"[own] [const] TYPE [dims] [?] [-> [dims]]"`.

    A dim is a number, a name, `_` (any), `...` (any number of dims) or `V...` (a group of dims with a name).
    `own`: nobody else reads it, nor the weights that it is made of.  `dims` None: any shape.  `optional`: it may be
    absent.  `onto`: it must broadcast one way to these dims, in which `1*V` is as many ones as the group `V` has dims.
    """

    type_name: str
    const: bool = False
    dims: tuple[DimGuard, ...] | None = None
    optional: bool = False
    onto: tuple[DimGuard, ...] | None = None
    own: bool = False


@dataclass(frozen=True)
class Sample:
    """Concrete shapes and attributes on which both sides are run."""

    shapes: Mapping[str, tuple[int, ...]]
    attributes: Mapping[str, Any] = field(default_factory=dict)
    absent: tuple[str, ...] = ()


@dataclass(frozen=True)
class Reject:
    """A graph that must not match, and the reason."""

    why: str
    text: str


@dataclass(frozen=True)
class Requirement:
    """What must be true of a match beside the guards: a text that folds to one truth value, and what it means."""

    why: str
    text: Text


@dataclass(frozen=True)
class Rule:
    """A rewrite rule as read from its file.

    `verified` are the opsets (of the default domain) at which the texts are known to mean what they say.
    `order`: rules with a lower one are applied until nothing changes before those with a higher one are tried.
    `absent`: what stands for an optional input that is not there (None: it stays absent, and what is computed from it).
    `derive`: attributes of the rewrite that are the value of a tensor which its lines fold to a constant.
    `why`, `source` (of the algebra) and `exporters` (who writes the pattern) are for readers.
    """

    name: str
    path: Path
    summary: str
    verified: tuple[int, ...]
    types: Mapping[str, tuple[int, ...]]
    safety: str
    status: str
    order: int
    keep: Mapping[str, str]
    inputs: Mapping[str, Guard]
    absent: Mapping[str, TextNode | None]
    attributes: Mapping[str, Mapping[str, Any]]
    derive: Mapping[str, str]
    draw: Mapping[str, tuple[float, float]]
    matches: tuple[Text, ...]
    rewrite: Text
    samples: tuple[Sample, ...]
    rejects: tuple[Reject, ...]
    why: str = ""
    source: str = ""
    exporters: tuple[str, ...] = ()
    require: tuple[Requirement, ...] = ()


@dataclass(frozen=True)
class Rulebook:
    """Rules in the order in which they are tried, and the forms that their match texts call.

    `unread` are the names of further built-in rules that were left out, since they cannot match.  `own_forms` are the
    names of the forms that are not built in.
    """

    rules: tuple[Rule, ...]
    forms: Mapping[str, tuple[Text, ...]]
    unread: frozenset[str] = frozenset()
    own_forms: frozenset[str] = frozenset()
