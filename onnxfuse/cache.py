"""What was found out once, kept in the user's cache folder: lost or unusable, it is only found out again."""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
from pathlib import Path
from typing import Final

# Entries of one kind; beyond that the oldest go.
MOST: Final = 1000


def cache_folder() -> Path | None:
    """Return onnxfuse's folder in XDG_CACHE_HOME, else where the platform keeps caches; None if there is none."""
    base = Path(os.environ.get("XDG_CACHE_HOME", ""))
    if not base.is_absolute():  # unset, or to be ignored
        try:
            base = _platform_folder(Path.home())
        except RuntimeError:  # no home
            return None
    return base / "onnxfuse"


def _platform_folder(home: Path) -> Path:
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or home / "AppData" / "Local")
    return home / "Library" / "Caches" if sys.platform == "darwin" else home / ".cache"


def remembered(kind: str, key: str) -> bool:
    """Tell whether there is an entry."""
    folder = cache_folder()
    try:
        return folder is not None and (folder / kind / key).read_text(encoding="utf-8") == key
    except (OSError, ValueError):
        return False


def remember(kind: str, key: str) -> None:
    """Write an entry whole or not at all; where it cannot be written, nothing happens."""
    folder = cache_folder()
    if folder is None:
        return
    with contextlib.suppress(OSError):
        place = folder / kind
        place.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=place, prefix=".", suffix=".tmp")
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as stream:
                stream.write(key)
            os.replace(name, place / key)
        except OSError:
            os.unlink(name)
            raise
        _forget_oldest(place)


def _forget_oldest(place: Path) -> None:
    entries = sorted((entry.stat().st_mtime, entry.path) for entry in os.scandir(place))
    for _, path in entries[: max(0, len(entries) - MOST)]:
        os.unlink(path)
