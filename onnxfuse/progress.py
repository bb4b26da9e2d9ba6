"""How long-running steps tell a front end how far they are."""

from __future__ import annotations

from collections.abc import Callable

# Called with (phase, steps done, steps in all); a total of 0 means that it is not known.
Progress = Callable[[str, int, int], None]


def silent(phase: str, done: int, total: int) -> None:
    """Report nothing."""
