"""The guard strings of a rule's [inputs] table: `"const T[M, G, ...]?"`, `"T -> [M, N]"`."""

from __future__ import annotations

import re
from collections.abc import Collection

from onnxfuse.rulebook.rule import ANY, REST, DimGuard, Guard, is_group

_GUARD = re.compile(
    r"(?P<own>own\s+)?(?P<const>const\s+)?(?P<type>\w+)\s*(?:\[(?P<dims>[^\]]*)\])?\s*(?P<optional>\?)?\s*(?:->\s*\[(?P<onto>[^\]]*)\])?"
)
_DIM = re.compile(r"\d+|[A-Za-z]\w*(\.\.\.)?|_|\.\.\.")
_ONTO = re.compile(rf"{_DIM.pattern}|1\*[A-Za-z]\w*")


def parse_guard(text: str, types: Collection[str]) -> Guard:
    """Read a guard string; ValueError says what is wrong with it.

    `types`: the names allowed as a type, which are the rule's type variables and the ONNX element types.
    """
    match = _GUARD.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"'{text}' is not of the form \"[own] [const] TYPE[dims]? -> [dims]\"")
    if match["type"] not in types:
        raise ValueError(f"'{match['type']}' is neither a type variable of the rule nor an ONNX element type")
    return Guard(
        type_name=match["type"],
        const=match["const"] is not None,
        own=match["own"] is not None,
        dims=_dims(match["dims"], _DIM),
        optional=match["optional"] is not None,
        onto=_dims(match["onto"], _ONTO),
    )


def _dims(text: str | None, form: re.Pattern[str]) -> tuple[DimGuard, ...] | None:
    if text is None:
        return None
    items = [item.strip() for item in text.split(",")] if text.strip() else []
    for item in items:
        if not form.fullmatch(item):
            raise ValueError(f"'{item}' is no dim: a number, a name, '{ANY}' or '{REST}' is")
    if items.count(REST) > 1 or sum(map(is_group, items)) > 1:
        raise ValueError(f"'{REST}' and a named group may each stand only once in [{text}]")
    return tuple(int(item) if item.isdigit() else item for item in items)
