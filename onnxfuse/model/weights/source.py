"""Files that weights are read from: held open, so that they stay readable when their name is replaced."""

from __future__ import annotations

import hashlib
import mmap
import os
import stat
import weakref
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from onnxfuse.errors import InputError

CHUNK_BYTES = 1 << 20
_NO_FILE_LIKE_THIS = (FileNotFoundError, NotADirectoryError)


class Source:
    """A regular file opened for reading at any place; closed when the last user drops it."""

    def __init__(self, path: Path) -> None:
        """Open ``path``; raises OSError."""
        self.path = path
        self.fd = os.open(path, os.O_RDONLY | getattr(os, "O_BINARY", 0) | getattr(os, "O_NONBLOCK", 0))
        self._close = weakref.finalize(self, os.close, self.fd)
        status = os.fstat(self.fd)
        if not stat.S_ISREG(status.st_mode):
            raise OSError("not a regular file")
        self.size = status.st_size
        self._modified = status.st_mtime_ns

    def read(self, offset: int, length: int) -> bytes:
        """Return ``length`` bytes from ``offset``; raises InputError when they are not there."""
        chunks = []
        while length > 0:
            chunk = self._read_once(offset, length)
            if not chunk:
                raise InputError(f"{self.path}: the data ends before byte {offset + length}; get the file again")
            chunks.append(chunk)
            offset += len(chunk)
            length -= len(chunk)
        return chunks[0] if len(chunks) == 1 else b"".join(chunks)

    def _read_once(self, offset: int, length: int) -> bytes:
        if hasattr(os, "pread"):
            return os.pread(self.fd, length, offset)
        os.lseek(self.fd, offset, os.SEEK_SET)
        return os.read(self.fd, length)

    def map(self) -> mmap.mmap:
        """Map the whole file, which must not be empty, for reading."""
        return mmap.mmap(self.fd, 0, access=mmap.ACCESS_READ)

    def same_file(self, path: Path) -> bool:
        """Say whether ``path`` leads to this file."""
        try:
            return os.path.samestat(os.fstat(self.fd), os.stat(path))
        except OSError:
            return False

    def check_unchanged(self) -> None:
        """Raise InputError when somebody has written to the file since it was opened."""
        status = os.fstat(self.fd)
        if (status.st_size, status.st_mtime_ns) != (self.size, self._modified):
            raise InputError(f"{self.path}: the file was changed while it was in use; run again")


@dataclass(frozen=True)
class Span:
    """``length`` bytes at ``offset`` of a file, standing for those bytes until they are needed."""

    source: Source
    offset: int
    length: int

    def __len__(self) -> int:
        return self.length

    def read(self) -> bytes:
        """Return the bytes; raises InputError when they are not there."""
        return self.source.read(self.offset, self.length)

    def chunks(self) -> Iterator[bytes]:
        """Yield the bytes in pieces of bounded size; raises InputError when they are not there."""
        end = self.offset + self.length
        for offset in range(self.offset, end, CHUNK_BYTES):
            yield self.source.read(offset, min(CHUNK_BYTES, end - offset))


def open_source(path: Path, what: str) -> Source:
    """Open ``path``, called ``what`` in messages; raises InputError with the reason."""
    try:
        return Source(path)
    except _NO_FILE_LIKE_THIS as error:
        raise InputError(f"{what}: no such file; check the path") from error
    except PermissionError as error:
        raise InputError(f"{what}: no permission to read it; change its permissions (chmod +r)") from error
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise InputError(f"{what}: cannot be read ({reason}); give a readable regular file") from error


def sha256(pieces: Iterator[bytes]) -> str:
    """Return the hexadecimal SHA-256 of the concatenated pieces."""
    digest = hashlib.sha256()
    for piece in pieces:
        digest.update(piece)
    return digest.hexdigest()
