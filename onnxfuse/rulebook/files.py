"""Which files a path of rules stands for: found without going astray, and neither too many nor too large."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from onnxfuse.errors import RuleError
from onnxfuse.rulebook.syntax.limits import MAX_FILES, MAX_TOTAL_BYTES, MAX_VISITED

FORMS_FILE = "forms.toml"


def rule_files(path: Path) -> list[Path]:
    """Return a file itself, or the rule files that lie in a folder or below it: a link must not lead elsewhere.

    Raises RuleError if there is none, or if the folder cannot be one of rules alone.
    """
    if not path.is_dir():
        if not path.exists():
            raise RuleError(f"{path}: there is no such rule file or folder")
        return [path]
    folder = Path(os.path.realpath(path))
    found = [file for file in _below(path) if Path(os.path.realpath(file)).is_relative_to(folder)]
    if not found:
        raise RuleError(f"{path}: there is no rule file (*.toml) in this folder")
    _check_names(found)
    return sorted(found)


def _below(folder: Path) -> Iterator[Path]:
    """Yield the TOML files of a folder; links to folders are not followed."""
    visited = 0
    for where, folders, names in os.walk(folder, onerror=_unreadable):
        visited += len(folders) + len(names)
        if visited > MAX_VISITED:
            raise RuleError(f"{folder}: more than {MAX_VISITED:,} files lie in it: give a folder of rules alone")
        yield from (Path(where, name) for name in names if name.endswith(".toml"))


def _unreadable(error: OSError) -> None:
    raise RuleError(f"{error.filename}: the folder cannot be read: {error.strerror or error}") from error


def _check_names(files: Iterable[Path]) -> None:
    """Refuse two rules of one name: one of them would replace the other in silence."""
    seen: dict[str, Path] = {}
    for file in files:
        if file.name != FORMS_FILE and (other := seen.setdefault(file.stem, file)) is not file:
            raise RuleError(f"{file}: {other} has a rule of this name, too: rename one of them")


def check_files(files: Sequence[Path]) -> None:
    """Check how many and how large the files of all paths are together.

    Raises RuleError.
    """
    if len(files) > MAX_FILES:
        raise RuleError(f"{files[MAX_FILES]}: with it there are more than {MAX_FILES:,} rule files: give fewer")
    total = 0
    for file in files:
        total += file.stat().st_size if file.exists() else 0
        if total > MAX_TOTAL_BYTES:
            raise RuleError(
                f"{file}: with it the rule files have more than {MAX_TOTAL_BYTES // 1024**2} MB: give a folder of rules"
            )
