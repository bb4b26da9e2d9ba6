"""A rule file as it lies on disk: read within limits, parsed as TOML, and able to say where in it something stands."""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from onnxfuse.errors import RuleError
from onnxfuse.rulebook.syntax.keys import FORMAT
from onnxfuse.rulebook.syntax.kinds import Record, Where
from onnxfuse.rulebook.syntax.limits import MAX_FILE_BYTES, toml_excess, unprintable
from onnxfuse.rulebook.syntax.text import TextError

_TESTS = re.compile(r"^\[\[(sample|reject)\]\]", re.MULTILINE)


@dataclass(frozen=True)
class Source:
    """A rule file: its text, to find the place of an error, and its content."""

    path: Path
    text: str
    data: dict[str, Any]

    @classmethod
    def read(cls, path: Path, checked: bool = False) -> Source:
        """Read a file; RuleError if it is no TOML, too large, too deep or holds control characters.

        `checked`: it is known to be right, and its tests (samples and rejects, which come last) are left out.
        """
        raw = cls(path, _decoded(path, _bytes(path)), {})
        if checked:
            tests = _TESTS.search(raw.text)
            head = raw.text[: tests.start()] if tests else raw.text
            return cls(path, raw.text, _toml(cls(path, head, {})))
        at = unprintable(raw.text)
        if at is not None:
            raise raw.error_at(
                at, f"the character U+{ord(raw.text[at]):04X} cannot be seen: write it out or leave it out"
            )
        if excess := toml_excess(raw.text):
            raise raw.error_at(excess[1], excess[0])
        return cls(path, raw.text, _toml(raw))

    def check(self, record: Record) -> None:
        """Raise RuleError for the first key or value that is not as `record` wants it."""
        self._check_format()
        for problem in record.problems(self.data, ()):
            raise self.error(problem.message, problem.where)
        self._check_characters(self.data, ())

    def error(self, reason: str, where: Where = ()) -> RuleError:
        """Return an error that names the place of a key."""
        return self.error_at(self._place(where), reason)

    def error_at(self, position: int, reason: str) -> RuleError:
        """Return an error that names the line and column of a character of the file."""
        line, column = self._line_and_column(position)
        return RuleError(f"{self.path}:{line}:{column}: {reason}")

    def line_and_column(self, where: Where) -> tuple[int, int]:
        """Return line and column (from 1) of a key, or of the nearest key above it that can be found."""
        return self._line_and_column(self._place(where))

    def _line_and_column(self, position: int) -> tuple[int, int]:
        before = self.text[:position]
        return before.count("\n") + 1, position - before.rfind("\n")

    def text_error(self, text: str, error: TextError, where: Where) -> RuleError:
        """Return an error at a place inside the text that is the value of a key."""
        key = self._place(where)
        position = self.text.find(text, key)
        if position < 0:  # written with escapes
            return self.error_at(key, error.reason)
        lines = text.split("\n")[: error.line - 1]
        return self.error_at(position + sum(len(line) + 1 for line in lines) + error.column - 1, error.reason)

    def _check_format(self) -> None:
        version = self.data.get("format", FORMAT)
        if isinstance(version, int) and not isinstance(version, bool) and version > FORMAT:
            raise self.error(
                f"this file is written in rule format {version if version < 10**6 else 'N'}, "
                f"this onnxfuse reads format {FORMAT}: install a newer onnxfuse",
                ("format",),
            )

    def _check_characters(self, value: object, where: Where) -> None:
        """Refuse control characters that were written with escapes."""
        if isinstance(value, str) and (at := unprintable(value)) is not None:
            raise self.error(f"the character U+{ord(value[at]):04X} is not allowed in a rule", where)
        if isinstance(value, dict):
            for name, item in value.items():
                self._check_characters(name, where)
                self._check_characters(item, (*where, name))
        elif isinstance(value, list):
            for index, item in enumerate(value):
                self._check_characters(item, (*where, index))

    def _place(self, where: Where) -> int:
        """Return the index in the file at which a key stands, or the nearest key above it that can be found."""
        position = 0
        for depth, part in enumerate(where):
            if isinstance(part, int):
                position = self._header(str(where[depth - 1]), part, position)
            elif found := re.compile(rf"""(?:^|[\[{{.,\s"'])({re.escape(part)})["']?\s*[=.\]]""", re.M).search(
                self.text, position
            ):
                position = found.start(1)
        return position

    def _header(self, name: str, index: int, otherwise: int) -> int:
        """Return where the table number `index` of an array of tables begins."""
        headers = re.finditer(rf"^\s*(\[\[\s*(?:\w+\.)?{re.escape(name)}\s*\]\])", self.text, re.M)
        return next((found.start(1) for number, found in enumerate(headers) if number == index), otherwise)


def _bytes(path: Path) -> bytes:
    """Read no more than a rule file may have: the path may be a device or a disk image."""
    if not path.is_file():
        raise RuleError(f"{path}: cannot be read as a rule file: it is no ordinary file")
    try:
        with path.open("rb") as stream:
            data = stream.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        raise RuleError(f"{path}: cannot be read as a rule file: {error.strerror or error}") from error
    if len(data) > MAX_FILE_BYTES:
        raise RuleError(f"{path}: has more than {MAX_FILE_BYTES // 1024} kB, which no rule file may: split it")
    return data


def _decoded(path: Path, data: bytes) -> str:
    try:
        return data.decode("utf-8").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise RuleError(f"{path}:{line}:1: cannot be read as a rule file: it is not UTF-8") from error


def _toml(raw: Source) -> dict[str, Any]:
    try:
        return tomllib.loads(raw.text)
    except tomllib.TOMLDecodeError as error:
        found = re.search(r" \(at line (\d+), column (\d+)\)$", str(error))
        place = f"{found[1]}:{found[2]}" if found else f"{raw.text.count(chr(10)) + 1}:1"
        raise RuleError(f"{raw.path}:{place}: not TOML: {re.sub(r' .at .*', '', str(error))}") from error
    except (ValueError, RecursionError) as error:  # a number with thousands of digits
        raise RuleError(f"{raw.path}:1:1: not TOML that can be read: {error}") from error
