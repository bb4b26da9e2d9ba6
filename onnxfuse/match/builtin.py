"""The built-in rules, compiled: kept beside them between runs, as Python keeps the bytecode of its modules.

Reading and compiling them takes longer than optimizing a small model.  The file is written and trusted on the same
terms as a .pyc: it lies in `__pycache__` of the rules' folder and is used only while no rule has changed.  Rules of the
user's own never go into it.
"""

from __future__ import annotations

import hashlib
import os
import pickle
import sys
import tempfile
from collections.abc import Collection
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

import onnx

from onnxfuse.match.pattern import Pattern, compile_patterns
from onnxfuse.rulebook.library import builtin_rules_dir
from onnxfuse.rulebook.relevance import Operators, relevant


@dataclass(frozen=True)
class Library:
    """The patterns of all built-in rules, and the operators that each rule speaks of."""

    patterns: tuple[Pattern, ...]
    operators: dict[str, Operators]

    def for_model(self, present: Collection[str]) -> tuple[Pattern, ...]:
        """Return the patterns that can match in a model with these operators."""
        chosen = relevant(self.operators, present)
        return tuple(pattern for pattern in self.patterns if pattern.rule.name in chosen)


def builtin_library() -> Library:
    """Return the built-in rules compiled.

    Raises RuleError if one of their files has been damaged.
    """
    folder = builtin_rules_dir()
    return _library(folder, _fingerprint(folder))


@lru_cache(maxsize=1)
def _library(folder: Path, fingerprint: str) -> Library:
    path = folder / "__pycache__" / f"rules-{fingerprint}.{sys.implementation.cache_tag}.pickle"
    try:
        found = pickle.loads(path.read_bytes())
        if isinstance(found, Library):
            return found
    except Exception:  # not there yet, or of another make: made again
        pass
    library = _compiled()
    if not sys.dont_write_bytecode:
        _write(path, pickle.dumps(library))
    return library


def _fingerprint(folder: Path) -> str:
    """Return what changes with any rule file, with the code that reads them, and with onnx."""
    digest = hashlib.sha256(onnx.__version__.encode())
    code = Path(__file__).resolve().parent.parent
    files = [*folder.rglob("*.toml"), *(code / "rulebook").rglob("*.py"), *(code / "match").rglob("*.py")]
    for file in sorted(files):
        status = file.stat()
        digest.update(f"{file.name} {status.st_size} {status.st_mtime_ns}\n".encode())
    return digest.hexdigest()[:16]


def _compiled() -> Library:
    from onnxfuse.rulebook.load import builtin_operators, load_rulebook

    book = load_rulebook()
    lean = tuple(replace(rule, samples=(), rejects=()) for rule in book.rules)
    return Library(compile_patterns(replace(book, rules=lean)), builtin_operators())


def _write(path: Path, data: bytes) -> None:
    """Write the file whole, where that is possible, and drop those of former states of the rules."""
    try:
        path.parent.mkdir(exist_ok=True)
        handle, name = tempfile.mkstemp(dir=path.parent, suffix=".tmp")
        with os.fdopen(handle, "wb") as stream:
            stream.write(data)
        os.replace(name, path)
        for old in path.parent.glob(f"rules-*.{sys.implementation.cache_tag}.pickle"):
            if old != path:
                old.unlink(missing_ok=True)
    except OSError:
        pass  # a read-only installation does without
