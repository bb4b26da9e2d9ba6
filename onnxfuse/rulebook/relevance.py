"""Which rule files can matter to a model, told from the operators in their texts without parsing them.

Reading a rule strictly takes a few milliseconds, and most rules speak of operators that a given model does not have.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import NamedTuple

_CALL = re.compile(r'=\s*"?([A-Za-z_]\w*)\s*[<(]')
_SECTION = re.compile(
    r"^\[+(inputs|absent|attributes|constants|derive|draw|require|match|rewrite|sample|reject)\b.*$", re.MULTILINE
)


class Operators(NamedTuple):
    """The operators of the default domain in a rule file: of each match text, and of the rewrite."""

    matches: tuple[frozenset[str], ...]
    rewrite: frozenset[str]


def operators(text: str) -> Operators:
    """Return the operators that the texts of a rule file call; calls of forms and Constants are left out."""
    heads = list(_SECTION.finditer(text))
    ends = [head.start() for head in heads[1:]] + [len(text)]
    sections = [(head[1], text[head.end() : end]) for head, end in zip(heads, ends, strict=True)]
    calls = [(name, frozenset(_CALL.findall(body)) - {"Constant"}) for name, body in sections]
    emitted = frozenset(op for name, ops in calls if name in ("rewrite", "absent") for op in ops)
    return Operators(tuple(ops for name, ops in calls if name == "match"), emitted)


def relevant(files: Mapping[str, Operators], present: Iterable[str]) -> frozenset[str]:
    """Return the names of the files with a match text whose operators a model has, or gets from such a file."""
    ops, chosen = set(present), set[str]()
    while True:
        more = {n for n, found in files.items() if n not in chosen and any(match <= ops for match in found.matches)}
        if not more:
            return frozenset(chosen)
        chosen |= more
        ops.update(op for name in more for op in files[name].rewrite)
