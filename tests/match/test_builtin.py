"""The compiled built-in rules that are kept between runs."""

from __future__ import annotations

import pickle
import shutil
import sys
from pathlib import Path

import pytest

from onnxfuse.match import builtin
from onnxfuse.match.builtin import Library, builtin_library
from onnxfuse.rulebook import load
from onnxfuse.rulebook.library import builtin_rules_dir


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of a few rules in the place of the built-in ones."""
    rules = tmp_path / "rules"
    for name in ("forms.toml", "activation/gelu-erf.toml", "conv/conv-batchnorm.toml"):
        (rules / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(builtin_rules_dir() / name, rules / name)
    for module in (builtin, load):
        monkeypatch.setattr(module, "builtin_rules_dir", lambda: rules)
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    builtin._library.cache_clear()
    return rules


def kept(folder: Path) -> list[Path]:
    return sorted((folder / "__pycache__").glob("*.pickle"))


def count_compilations(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    calls: list[int] = []
    compiled = builtin._compiled

    def counting() -> Library:
        calls.append(1)
        return compiled()

    monkeypatch.setattr(builtin, "_compiled", counting)
    return calls


def test_rules_are_compiled_once(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = count_compilations(monkeypatch)
    first = builtin_library()
    builtin._library.cache_clear()  # as in another process
    second = builtin_library()
    assert len(calls) == 1 and len(kept(folder)) == 1
    assert set(first.operators) == set(second.operators) == {"gelu-erf", "conv-batchnorm"}
    assert [p.rule.name for p in second.patterns] == [p.rule.name for p in first.patterns]


def test_a_changed_rule_is_compiled_again(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = count_compilations(monkeypatch)
    builtin_library()
    (folder / "conv" / "conv-batchnorm.toml").unlink()
    assert set(builtin_library().operators) == {"gelu-erf"}
    assert len(calls) == 2 and len(kept(folder)) == 1  # the stale one is gone


@pytest.mark.parametrize("content", [b"", b"not a pickle", pickle.dumps(["something else"])])
def test_a_damaged_file_is_made_again(folder: Path, content: bytes) -> None:
    builtin_library()
    (path,) = kept(folder)
    path.write_bytes(content)
    builtin._library.cache_clear()
    assert set(builtin_library().operators) == {"gelu-erf", "conv-batchnorm"}
    assert isinstance(pickle.loads(path.read_bytes()), Library)


def test_nothing_is_written_where_python_writes_no_bytecode(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    assert builtin_library().patterns
    assert not (folder / "__pycache__").exists()


def test_a_folder_that_cannot_be_written_is_no_error(folder: Path) -> None:
    (folder / "__pycache__").write_text("a file where the folder would be")
    assert builtin_library().patterns


def test_only_patterns_that_can_match_are_given(folder: Path) -> None:
    library = builtin_library()
    assert {p.rule.name for p in library.for_model({"Conv", "BatchNormalization"})} == {"conv-batchnorm"}
    assert library.for_model({"Relu"}) == ()
