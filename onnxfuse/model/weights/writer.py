"""Writing files whole or not at all, with weights going from file to file without passing through memory."""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import BinaryIO

from onnxfuse.errors import OutputError
from onnxfuse.model.weights.source import CHUNK_BYTES, Span
from onnxfuse.model.weights.wire import Piece

# Below this, two system calls cost more than a copy through the write buffer.
_DIRECT_COPY_BYTES = 1 << 16
# What the system says when it cannot copy between these two files by itself.
_NO_DIRECT_COPY = {errno.EXDEV, errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP, errno.EPERM, errno.EBADF, errno.ETXTBSY}


class Stage:
    """Files written beside their places under temporary names, to be renamed together."""

    def __init__(self) -> None:
        self._temporary: dict[Path, Path] = {}

    def write(self, path: Path, pieces: Iterable[Piece]) -> None:
        """Write a file that is to be ``path``; raises OutputError, or InputError when a piece cannot be read."""
        temporary = _unused_name(path)
        with _output_errors(path):
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
            fd = os.open(temporary, flags, 0o666)
            self._temporary[path] = temporary
            with open(fd, "wb", buffering=CHUNK_BYTES) as file:
                _keep_mode(path, fd)
                for piece in pieces:
                    _write_piece(file, piece)
                file.flush()
                os.fsync(fd)

    def commit(self) -> None:
        """Rename all files to their places, in the order they were written, or none; raises OutputError."""
        with contextlib.ExitStack() as backups, contextlib.ExitStack() as undo:
            for path, temporary in self._temporary.items():
                backup = _unused_name(path)
                backups.callback(_remove, backup)
                restore = _set_aside(path, backup)
                with _output_errors(path):
                    os.replace(temporary, path)
                undo.callback(restore)
                _sync_folder(path.parent)
            undo.pop_all()

    def discard(self) -> None:
        """Remove what has not been committed."""
        for temporary in self._temporary.values():
            _remove(temporary)


def _unused_name(path: Path) -> Path:
    return path.with_name(f".onnxfuse-{secrets.token_hex(8)}.tmp")


def _remove(path: Path) -> None:
    with contextlib.suppress(OSError):
        path.unlink()


def _set_aside(path: Path, backup: Path) -> Callable[[], None]:
    """Keep what is at ``path`` under the name ``backup``, and return what undoes a later change of ``path``."""
    if not os.path.lexists(path):
        return partial(_remove, path)
    try:
        os.link(path, backup, follow_symlinks=False)
    except (OSError, NotImplementedError):
        return lambda: None
    return partial(os.replace, backup, path)


@contextlib.contextmanager
def staged() -> Iterator[Stage]:
    """Give a stage; nothing is left of it unless it is committed."""
    stage = Stage()
    try:
        yield stage
    finally:
        stage.discard()


def _keep_mode(path: Path, fd: int) -> None:
    """Give the new file the permissions of the one it replaces."""
    with contextlib.suppress(OSError, AttributeError):
        os.fchmod(fd, path.stat().st_mode & 0o777)


def _write_piece(file: BinaryIO, piece: Piece) -> None:
    if not isinstance(piece, Span):
        file.write(piece)
        return
    copied = 0
    if len(piece) >= _DIRECT_COPY_BYTES:
        file.flush()
        copied = _copy_direct(file.fileno(), piece)
    for chunk in Span(piece.source, piece.offset + copied, len(piece) - copied).chunks():
        file.write(chunk)


def _copy_direct(target: int, span: Span) -> int:
    """Let the system copy as much of ``span`` as it can, and return how many bytes that was."""
    if not hasattr(os, "copy_file_range"):
        return 0
    copied = 0
    while copied < len(span):
        try:
            count = os.copy_file_range(span.source.fd, target, len(span) - copied, span.offset + copied)
        except OSError as error:
            if error.errno in _NO_DIRECT_COPY:
                break
            raise
        if count == 0:
            break
        copied += count
    return copied


def _sync_folder(folder: Path) -> None:
    """Make a rename last; best effort, as not every system can open a folder."""
    with contextlib.suppress(OSError):
        fd = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)


@contextlib.contextmanager
def _output_errors(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        reason = error.strerror or str(error)
        raise OutputError(f"{path}: cannot be written ({reason}); choose another place or make room") from error
