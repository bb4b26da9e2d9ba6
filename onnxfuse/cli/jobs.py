"""Which models are to be optimised, and where each result goes; everything wrong with that is said before any work."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from onnxfuse.errors import InputError, OnnxfuseError, OutputError, UsageError

_RESULT_SUFFIX = ".opt.onnx"


@dataclass(frozen=True)
class Job:
    """One model file and the file for its result."""

    model: Path
    output: Path


@dataclass(frozen=True)
class Plan:
    """All jobs of one command, the folder that they need (None: no new one) and what cannot even be tried.

    ``several`` is whether the user asked for more than one model, by several names or by a folder.
    """

    jobs: tuple[Job, ...]
    folder: Path | None
    several: bool
    failures: tuple[tuple[str, OnnxfuseError], ...] = ()


def plan(models: Sequence[str], output: str | None, in_place: bool) -> Plan:
    """Expand folders and name the outputs. Raises UsageError and OutputError when the call as a whole is wrong."""
    if in_place and output is not None:
        raise UsageError("--in-place writes to the model itself: leave out either it or --output")
    paths, failures = expand(models)
    several = len(models) > 1 or any(os.path.isdir(model) for model in models)
    folder = _output_folder(output, several)
    jobs = tuple(Job(path, _output(path, output, folder, in_place)) for path in paths)
    _refuse_clashes(jobs, in_place)
    return Plan(jobs, folder, several, failures)


def expand(models: Iterable[str]) -> tuple[list[Path], tuple[tuple[str, OnnxfuseError], ...]]:
    """The model files, each once; a folder stands for the .onnx files that lie in it."""
    paths: dict[str, Path] = {}
    failures: list[tuple[str, OnnxfuseError]] = []
    for model in models:
        if not model:
            raise UsageError("a MODEL is empty: give the path of a model or a folder")
        try:
            found = _models_in(Path(model)) if os.path.isdir(model) else [Path(model)]
        except OnnxfuseError as error:
            failures.append((model, error))
            continue
        for path in found:
            paths.setdefault(_identity(path), path)
    return list(paths.values()), tuple(failures)


def _models_in(folder: Path) -> list[Path]:
    """The models directly in ``folder``; hidden files and our own results (.opt.onnx) are not taken."""
    try:
        files = sorted(path for path in folder.iterdir() if _is_model(path))
    except OSError as error:
        raise InputError(f"{folder}: cannot read the folder: {error.strerror or error}") from error
    if not files:
        raise InputError(f"{folder}: no .onnx file in this folder (its subfolders and *{_RESULT_SUFFIX} are not taken)")
    return files


def _is_model(path: Path) -> bool:
    name = path.name.lower()
    return name.endswith(".onnx") and not name.endswith(_RESULT_SUFFIX) and name[0] != "." and os.path.isfile(path)


def _output_folder(output: str | None, several: bool) -> Path | None:
    """The folder that ``--output`` means, None where it is a file or not given."""
    if output is None:
        return None
    if not output:
        raise UsageError("--output is empty: give a file or a folder")
    path = Path(output)
    if several and os.path.exists(path) and not os.path.isdir(path):
        raise UsageError(f"{path} is a file: several models need a folder as --output")
    ends_in_separator = output.endswith(tuple(sep for sep in (os.sep, os.altsep) if sep))
    return path if several or ends_in_separator or os.path.isdir(path) else None


def _output(model: Path, output: str | None, folder: Path | None, in_place: bool) -> Path:
    if in_place:
        return Path(os.path.realpath(model)) if model.is_symlink() else model
    if folder is not None:
        return folder / model.name
    return model.with_name(model.stem + _RESULT_SUFFIX) if output is None else Path(output)


def _refuse_clashes(jobs: Sequence[Job], in_place: bool) -> None:
    """No result may overwrite another result or a model that was given."""
    models = {_identity(job.model): job.model for job in jobs}
    written: dict[str, Path] = {}
    for job in jobs:
        target = _identity(job.output)
        if target in written:
            raise UsageError(f"{written[target]} and {job.model} would both be written to {job.output}")
        if target in models and not in_place:
            raise UsageError(f"{job.output} is an input: give another --output, or --in-place to replace the model")
        written[target] = job.model


def _identity(path: Path) -> str:
    """Equal for two spellings of one file."""
    return os.path.normcase(os.path.realpath(path))


class OutputFolder:
    """Creates the folder for the results, and takes it away again if nothing was written to it."""

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder
        self._created: list[Path] = []

    def __enter__(self) -> None:
        if self._folder is None:
            return
        missing = [path for path in (self._folder, *self._folder.parents) if not os.path.exists(path)]
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise OutputError(f"{self._folder}: cannot create the folder: {error.strerror or error}") from error
        self._created = missing

    def __exit__(self, *raised: object) -> None:
        for path in self._created:
            try:
                path.rmdir()
            except OSError:  # not empty: that is the good case
                return
