"""A user's own rules are proven before they are applied; what was proven once is remembered by its content."""

from __future__ import annotations

import hashlib
import importlib.metadata
from collections.abc import Collection
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy
import onnx

import onnxfuse
from onnxfuse.cache import remember, remembered
from onnxfuse.errors import RuleError
from onnxfuse.progress import Progress, silent
from onnxfuse.rulebook.forms import forms_called
from onnxfuse.rulebook.library import builtin_rules_dir
from onnxfuse.rulebook.rule import Rule, Rulebook

if TYPE_CHECKING:
    from onnxfuse.prove import RuleProof

_KIND: Final = "proven-rules"
_RUNTIMES: Final = ("onnxruntime", "onnxruntime-gpu")
_PACKAGE: Final = Path(__file__).resolve().parent

# What was proven, or found to have been, in this process: a cache folder that cannot be used costs only once.
_known: set[str] = set()


def require_proven(
    book: Rulebook, names: Collection[str], *, jobs: int | None = 1, progress: Progress = silent
) -> None:
    """Verify those rules of a book that are called `names`, are no built-in ones and were not proven before.

    `jobs`: processes to use; None: one for each core, 1: none but this one.

    Raises RuleError for the first rule that fails, with the first case in which it does.
    """
    rules = [rule for rule in book.rules if rule.name in names and not rule.path.is_relative_to(builtin_rules_dir())]
    keys = {rule.name: _digest(rule, book) for rule in rules}
    new = [name for name, key in keys.items() if not _is_known(key)]
    if not new:
        return
    from onnxfuse.prove import verify  # imports onnxruntime

    forms = book.own_forms & {form for rule in rules if rule.name in new for form in forms_called(rule.matches, book)}
    found = verify(book, names=new, forms=forms, jobs=jobs, progress=progress)
    for form in found.forms:
        if form.problems:
            raise RuleError(f"form '{form.form}', which your rules call, is not proven: {form.problems[0]}")
    for rule in found.rules:
        if rule.problems:
            raise RuleError(_refusal(rule))
        _known.add(keys[rule.rule])
        remember(_KIND, keys[rule.rule])


def _refusal(proof: RuleProof) -> str:
    return (
        f"{proof.path}: rule '{proof.rule}' is not proven, so it is not applied: {proof.problems[0]} "
        f"(`onnxfuse rules verify {proof.path}` shows all)"
    )


def _is_known(key: str) -> bool:
    if key not in _known and remembered(_KIND, key):
        _known.add(key)
    return key in _known


def _digest(rule: Rule, book: Rulebook) -> str:
    """Return what changes with a rule, with the forms that it calls, and with what proves it."""
    content = (
        replace(rule, path=Path(rule.path.name)),
        *(book.forms[form] for form in forms_called(rule.matches, book)),
    )
    return hashlib.sha256(f"{_provers()} {content!r}".encode()).hexdigest()


@cache
def _provers() -> str:
    """Return what changes with onnxfuse's own code and with the packages that prove rules."""
    code = [(str(file.relative_to(_PACKAGE)), file.stat().st_size, file.stat().st_mtime_ns) for file in _code()]
    return f"{onnxfuse.__version__} {onnx.__version__} {numpy.__version__} {sorted(map(_version, _RUNTIMES))} {code}"


def _code() -> list[Path]:
    return sorted(_PACKAGE.rglob("*.py"))


def _version(distribution: str) -> str:
    try:
        return f"{distribution} {importlib.metadata.version(distribution)}"
    except importlib.metadata.PackageNotFoundError:
        return ""
