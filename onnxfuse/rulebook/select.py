"""Choosing rules by name or glob."""

from __future__ import annotations

from collections.abc import Iterable
from fnmatch import fnmatchcase

from onnxfuse.errors import UsageError


def selected(names: Iterable[str], select: Iterable[str], ignore: Iterable[str]) -> frozenset[str]:
    """Return the names that match `select` (all, if it is empty) and do not match `ignore`.

    Raises UsageError for a pattern that matches no name.
    """
    known = list(names)
    chosen = _matching(known, select) if (select := list(select)) else set(known)
    return frozenset(chosen - _matching(known, ignore))


def _matching(names: list[str], patterns: Iterable[str]) -> set[str]:
    found: set[str] = set()
    for pattern in patterns:
        matching = {name for name in names if fnmatchcase(name, pattern)}
        if not matching:
            from onnxfuse.rulebook.syntax.kinds import suggestion

            raise UsageError(f"no rule is called '{pattern}'{suggestion(pattern, names)}")
        found |= matching
    return found
