"""Which models are optimised and where the results go."""

from __future__ import annotations

from pathlib import Path

import pytest

from onnxfuse.cli.jobs import OutputFolder, Plan, plan
from onnxfuse.errors import OutputError, UsageError


def _pairs(made: Plan) -> list[tuple[str, str]]:
    return [(job.model.as_posix(), job.output.as_posix()) for job in made.jobs]


@pytest.mark.parametrize(
    ("models", "output", "in_place", "expected"),
    [
        (["a.onnx"], None, False, [("a.onnx", "a.opt.onnx")]),
        (["sub/c.onnx"], None, False, [("sub/c.onnx", "sub/c.opt.onnx")]),
        (["a.onnx"], "x.onnx", False, [("a.onnx", "x.onnx")]),
        (["a.onnx"], "sub", False, [("a.onnx", "sub/a.onnx")]),
        (["a.onnx"], "new/", False, [("a.onnx", "new/a.onnx")]),
        (["a.onnx"], None, True, [("a.onnx", "a.onnx")]),
        (["a.onnx", "b.onnx"], "new", False, [("a.onnx", "new/a.onnx"), ("b.onnx", "new/b.onnx")]),
        (["."], None, False, [("a.onnx", "a.opt.onnx"), ("b.onnx", "b.opt.onnx")]),
        (["sub"], "new", False, [("sub/c.onnx", "new/c.onnx")]),
        (["a.onnx", "./a.onnx", "."], None, False, [("a.onnx", "a.opt.onnx"), ("b.onnx", "b.opt.onnx")]),
        (["missing.onnx"], None, False, [("missing.onnx", "missing.opt.onnx")]),
    ],
)
def test_plan(
    folder: Path, models: list[str], output: str | None, in_place: bool, expected: list[tuple[str, str]]
) -> None:
    (folder / "sub").mkdir()
    for name in ("sub/c.onnx", "sub/c.opt.onnx", "sub/.hidden.onnx", "sub/notes.txt"):
        (folder / name).touch()
    (folder / "sub/folder.onnx").mkdir()
    assert _pairs(plan(models, output, in_place)) == expected


@pytest.mark.parametrize(
    ("models", "output", "in_place", "words"),
    [
        (["a.onnx"], "x.onnx", True, "--in-place"),
        (["a.onnx"], "a.onnx", False, "a.onnx is an input"),
        (["a.onnx"], ".", False, "a.onnx is an input"),
        (["a.onnx", "b.onnx"], "b.onnx", False, "b.onnx is a file"),
        (["a.onnx", "sub/a.onnx"], "new", False, "would both be written to new/a.onnx"),
        (["sub/a.onnx", "b.onnx"], ".", False, "is an input"),
        (["a.onnx"], "", False, "--output is empty"),
        (["a.onnx", ""], None, False, "a MODEL is empty"),
    ],
)
def test_wrong_calls_are_refused_before_any_work(
    folder: Path, models: list[str], output: str | None, in_place: bool, words: str
) -> None:
    (folder / "sub").mkdir()
    (folder / "sub/a.onnx").touch()
    with pytest.raises(UsageError, match=words):
        plan(models, output, in_place)


def test_links_to_one_model_are_one_model(folder: Path) -> None:
    (folder / "link.onnx").symlink_to("a.onnx")
    assert _pairs(plan(["a.onnx", "link.onnx"], None, False)) == [("a.onnx", "a.opt.onnx")]


def test_in_place_writes_to_what_a_link_means(folder: Path) -> None:
    (folder / "link.onnx").symlink_to("a.onnx")
    assert _pairs(plan(["link.onnx"], None, True)) == [("link.onnx", (folder / "a.onnx").as_posix())]


def test_a_folder_without_models_is_one_failure_among_others(folder: Path) -> None:
    (folder / "empty").mkdir()
    made = plan(["empty", "a.onnx"], None, False)
    assert _pairs(made) == [("a.onnx", "a.opt.onnx")]
    assert [(path, str(error).partition(" (")[0]) for path, error in made.failures] == [
        ("empty", "empty: no .onnx file in this folder")
    ]


def test_output_folder_is_created_and_kept_if_used(folder: Path) -> None:
    with OutputFolder(Path("new/deep")):
        Path("new/deep/file").touch()
    assert Path("new/deep/file").exists()


def test_output_folder_is_taken_away_if_nothing_was_written(folder: Path) -> None:
    with pytest.raises(KeyboardInterrupt), OutputFolder(Path("new/deep")):
        raise KeyboardInterrupt
    assert not Path("new").exists()


def test_an_empty_folder_that_was_there_stays(folder: Path) -> None:
    Path("old").mkdir()
    with OutputFolder(Path("old")):
        pass
    assert Path("old").is_dir()


def test_output_folder_below_a_file(folder: Path) -> None:
    with pytest.raises(OutputError, match=r"a\.onnx/new: cannot create the folder"), OutputFolder(Path("a.onnx/new")):
        pass
