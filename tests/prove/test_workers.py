"""Parts of a proof that end their process, or take too much: the others are done, and those are told."""

from __future__ import annotations

import os
import sys

import pytest

from onnxfuse.prove import workers


def _prove(setting: int, part: str) -> str:
    if part == "aborts":
        os.abort()
    if part == "takes gigabytes":
        bytearray(2 * workers.BYTES)
    if part == "never ends":
        workers._limit_time(setting)  # the limit itself would take minutes
        while True:
            pass
    return part.upper()


@pytest.mark.skipif(sys.platform == "win32", reason="no such limits here")
def test_what_breaks_down_is_told_and_the_rest_is_done() -> None:
    parts = ["a", "aborts", "b", "takes gigabytes", "c", "never ends", "d"]
    found = workers.Workers(_prove, 1, lambda part: f"{part}!", jobs=2).run(parts)
    assert dict(found) == {
        "a": "A", "b": "B", "c": "C", "d": "D",
        "aborts": "aborts!", "takes gigabytes": "takes gigabytes!", "never ends": "never ends!",
    }  # fmt: skip
