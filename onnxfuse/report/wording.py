"""How names, numbers and sizes are written for people."""

from __future__ import annotations

import math
from collections.abc import Callable

# Called with (text, role); roles: good, bad, change, faint, strong. Returns the text, perhaps coloured.
Style = Callable[[str, str], str]


def plain(text: str, role: str) -> str:
    """Style nothing."""
    return text


def printable(text: str) -> str:
    """Spell out what a terminal would obey instead of show: model files are strangers' data."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else ascii(char)[1:-1] for char in text)


def quoted(name: str) -> str:
    """A name of the model in quotes, printable."""
    return f"'{printable(name)}'"


def number(value: float) -> str:
    """Two significant digits where the exact figure says no more: ``2.9e-06``, ``0.03``, ``120``."""
    if math.isfinite(value) and 100 <= abs(value) < 1e6:
        return f"{value:,.0f}"
    return f"{value:.2g}"


def size(count: int) -> str:
    """Bytes in decimal units: ``512 B``, ``4.1 kB``, ``439.0 MB``."""
    if count < 1000:
        return f"{count} B"
    scaled = float(count)
    for unit in ("kB", "MB", "GB"):
        scaled /= 1000
        if scaled < 999.95:
            return f"{scaled:.1f} {unit}"
    return f"{scaled / 1000:.1f} TB"


def counted(count: int, noun: str, plural: str | None = None) -> str:
    """``1 fusion``, ``2 fusions``."""
    return f"{count:,} {noun if count == 1 else plural or noun + 's'}"
