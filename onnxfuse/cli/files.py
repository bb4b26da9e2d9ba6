"""Report files: tried before the long work, written whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path

from onnxfuse.cli.params import STDOUT, ReportTarget
from onnxfuse.errors import OutputError, UsageError


def check_targets(targets: Sequence[ReportTarget], models: Iterable[Path]) -> None:
    """Refuse reports that would overwrite each other or a model (UsageError) or cannot be written (OutputError)."""
    taken = {os.path.realpath(path) for path in models}
    seen: set[str] = set()
    for target in targets:
        if _is_special(target.file):
            continue
        place = STDOUT if target.file == STDOUT else os.path.realpath(target.file)
        if place in seen:
            raise UsageError(f"two reports would be written to {target.file}: give each its own file")
        if place in taken:
            raise UsageError(f"the {target.format} report would overwrite the model {target.file}")
        seen.add(place)
        if place != STDOUT:
            _try(target.file)


def _try(file: str) -> None:
    """Create and remove the temporary file of :func:`write_text`."""
    temporary = _temporary(Path(os.path.realpath(file)))
    try:
        if os.path.isdir(file):
            raise IsADirectoryError(None, "it is a folder")
        os.close(_create(temporary))
        temporary.unlink()
    except OSError as error:
        raise _cannot_write(file, error) from error


def write_text(file: str, text: str) -> None:
    """Write ``text`` to ``file`` as UTF-8: to a temporary file beside it, then renamed. Raises OutputError.

    A link stays a link; a pipe or a device is written to.
    """
    data = text.encode("utf-8", errors="backslashreplace")
    try:
        if _is_special(file):
            Path(file).write_bytes(data)
        else:
            _replace(Path(os.path.realpath(file)), data)
    except OSError as error:
        raise _cannot_write(file, error) from error


def _replace(path: Path, data: bytes) -> None:
    temporary = _temporary(path)
    try:
        with open(_create(temporary), "wb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def _create(path: Path) -> int:
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)


def _temporary(path: Path) -> Path:
    return path.with_name(f".onnxfuse-report-{os.getpid()}.tmp")


def _is_special(file: str) -> bool:
    """A pipe or a device, which cannot be renamed over."""
    return os.path.exists(file) and not os.path.isfile(file) and not os.path.isdir(file)


def _cannot_write(file: str, error: OSError) -> OutputError:
    return OutputError(f"{file}: cannot write the report: {error.strerror or error}")
