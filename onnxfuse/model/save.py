"""Writing models: whole or not at all, with weights streamed from the files they lie in."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from itertools import count
from pathlib import Path

from onnxfuse.errors import InternalError, OutputError
from onnxfuse.model.file import ModelFile, serialize
from onnxfuse.model.weights.data import DataFiles
from onnxfuse.model.weights.packing import Packer
from onnxfuse.model.weights.source import Source, Span
from onnxfuse.model.weights.wire import Piece
from onnxfuse.model.weights.writer import staged

# protobuf reads no longer message.
MAX_MODEL_BYTES = 2**31 - 1


def save(model: ModelFile, output: str | os.PathLike[str]) -> None:
    """Write ``model`` to ``output``: inline weights inline, external ones into ``<output name>.data`` beside it.

    New large weights of a model with external data, and all weights of a model above 2 GiB, become external. The
    output may be the file that the model came from. Raises OutputError, or InputError when a weight cannot be read;
    then nothing is left behind.
    """
    output = Path(output)
    _check_place(output, model.data)
    data_path = _data_path(output, model.data)
    model_pieces, data_pieces = _pack(model, data_path.name)
    with staged() as stage:
        if data_pieces:
            _check_place(data_path, None)
            stage.write(data_path, data_pieces)
        stage.write(output, model_pieces)
        model.data.check_unchanged()
        stage.commit()


def _pack(model: ModelFile, location: str) -> tuple[list[Piece], list[Piece]]:
    """Return the pieces of the model file and of its data file."""
    skeleton = serialize(model.proto)
    packer = Packer(model.data, location, raw=bool(model.data.external()))
    pieces = packer.pack(skeleton)
    if sum(map(len, pieces)) > MAX_MODEL_BYTES:
        packer = Packer(model.data, location, raw=True, own=True)
        pieces = packer.pack(skeleton)
    if sum(map(len, pieces)) > MAX_MODEL_BYTES:
        raise OutputError("the model without its large weights is above 2 GiB, more than an ONNX file can hold")
    return pieces, packer.pieces


def _data_path(output: Path, data: DataFiles) -> Path:
    """Return where external data goes: never over data that the original still needs."""
    in_place = data.own is not None and data.own.same_file(output)
    for number in count():
        path = output.with_name(f"{output.name}.{number}.data" if number else f"{output.name}.data")
        if in_place or not any(source.same_file(path) for source in _sources(data)):
            break
    return path


def _sources(data: DataFiles) -> list[Source]:
    return [*data.external().values(), *([data.own] if data.own else [])]


def _check_place(output: Path, data: DataFiles | None) -> None:
    """Refuse places that cannot or must not be written to; raises OutputError."""
    if os.path.isdir(output):
        raise OutputError(f"{output} is a folder; give the name of a file in it")
    if not os.path.isdir(output.parent):
        raise OutputError(f"{output}: the folder {output.parent} does not exist; create it first")
    if os.path.exists(output) and not os.path.isfile(output):
        raise OutputError(f"{output} is not a regular file; choose another name")
    if os.path.exists(output) and not os.access(output, os.W_OK):
        raise OutputError(f"{output} is write-protected; choose another name or make it writable")
    if data is not None and any(source.same_file(output) for source in data.external().values()):
        raise OutputError(f"{output} holds the weights of the input model; choose another name")


def copy(model: ModelFile, output: str | os.PathLike[str]) -> None:
    """Write a model as it was loaded, byte for byte, with its data files beside it under the names it gives them.

    A data file of that name with other content is left alone: the model is then saved with a data file of its own.
    Raises OutputError or InputError; then nothing is left behind.
    """
    output = Path(output)
    own = model.data.own
    if own is None or not model.pristine:
        raise InternalError("only a model that is as it was loaded can be copied")
    _check_place(output, model.data)
    if own.same_file(output):
        return
    files = {output.parent / name: source for name, source in model.data.external().items()}
    if any(_taken(path, source, output) for path, source in files.items()):
        save(model, output)
        return
    _copy_files({path: source for path, source in files.items() if not path.exists()} | {output: own}, model.data)


def _copy_files(files: dict[Path, Source], data: DataFiles) -> None:
    with _folders(list(files)), staged() as stage:
        for path, source in files.items():
            stage.write(path, [Span(source, 0, source.size)])
        data.check_unchanged()
        stage.commit()


def _taken(path: Path, source: Source, output: Path) -> bool:
    """Say whether a data file cannot be at ``path``, because something else is or will be there."""
    if path == output or (path.exists() and not path.is_file()):
        return True
    return path.exists() and not source.same_file(path) and not _same_content(Source(path), source)


def _same_content(one: Source, other: Source) -> bool:
    if one.size != other.size:
        return False
    chunks = zip(Span(one, 0, one.size).chunks(), Span(other, 0, other.size).chunks(), strict=True)
    return all(a == b for a, b in chunks)


@contextlib.contextmanager
def _folders(paths: list[Path]) -> Iterator[None]:
    """Make the folders that files are to be in; those made are removed again if that fails."""
    missing = sorted({folder for path in paths for folder in path.parents if not folder.exists()})
    try:
        for folder in missing:
            folder.mkdir()
        yield
    except BaseException as error:
        for folder in reversed(missing):
            with contextlib.suppress(OSError):
                folder.rmdir()
        if isinstance(error, OSError):
            raise OutputError(f"{error.filename}: cannot be made ({error.strerror}); choose another place") from error
        raise
