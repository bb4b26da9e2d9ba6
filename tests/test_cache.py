"""The user's cache folder: where it is, and that nothing depends on it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from onnxfuse import cache


@pytest.mark.parametrize(
    ("platform", "place"),
    [("linux", ".cache"), ("darwin", "Library/Caches"), ("win32", "AppData/Local"), ("freebsd14", ".cache")],
)
def test_it_is_where_the_platform_keeps_caches(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, platform: str, place: str
) -> None:
    monkeypatch.setattr("onnxfuse.cache.sys.platform", platform)
    monkeypatch.setattr(Path, "home", lambda: tmp_path)
    monkeypatch.delenv("LOCALAPPDATA", raising=False)
    for ignored in ("", "relative/folder"):
        monkeypatch.setenv("XDG_CACHE_HOME", ignored)
        assert cache.cache_folder() == tmp_path / place / "onnxfuse"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "mine"))
    assert cache.cache_folder() == tmp_path / "mine" / "onnxfuse"


def test_what_is_remembered_is_there_again(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert not cache.remembered("kind", "key")
    cache.remember("kind", "key")
    assert cache.remembered("kind", "key") and not cache.remembered("other", "key")
    assert os.listdir(tmp_path / "onnxfuse" / "kind") == ["key"]
    (tmp_path / "onnxfuse" / "kind" / "key").write_bytes(b"\xff")
    assert not cache.remembered("kind", "key")


def test_a_folder_that_cannot_be_used_is_none(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    cache.remember("kind", "key")
    assert not cache.remembered("kind", "key")

    def homeless() -> Path:
        raise RuntimeError("no home")

    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setattr(Path, "home", homeless)
    cache.remember("kind", "key")
    assert not cache.remembered("kind", "key")


def test_the_oldest_entries_go(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(cache, "MOST", 3)
    for age, key in enumerate(["e", "d", "c", "b", "a"]):
        cache.remember("kind", key)
        path = tmp_path / "onnxfuse" / "kind" / key
        os.utime(path, (age, age))
    assert sorted(os.listdir(path.parent)) == ["a", "b", "c"]
