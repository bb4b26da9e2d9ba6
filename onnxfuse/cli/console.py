"""The two streams: results on stdout, everything else on stderr; and when they are coloured."""

from __future__ import annotations

import contextlib
import os
import sys
from typing import TextIO

import click

_COLORS = {"good": "green", "bad": "red", "change": "cyan"}


def make_streams_safe() -> None:
    """Names in a model may hold characters that a stream's encoding lacks: spell those out instead of failing."""
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="backslashreplace")


def wants_color(choice: str, stream: TextIO | None) -> bool:
    """Decide on colour: ``--color``, then NO_COLOR, then FORCE_COLOR or CLICOLOR_FORCE, then a terminal or not."""
    if choice != "auto":
        return choice == "always"
    if os.environ.get("NO_COLOR"):
        return False
    if any(os.environ.get(name, "0") not in ("", "0") for name in ("FORCE_COLOR", "CLICOLOR_FORCE")):
        return True
    return is_terminal(stream) and os.environ.get("TERM") != "dumb"


def is_terminal(stream: TextIO | None) -> bool:
    """Whether people read ``stream``; it may be closed or missing."""
    try:
        return stream is not None and stream.isatty()
    except ValueError:  # closed
        return False


def one_line(message: str) -> str:
    """``message`` without line breaks and without characters that a terminal would obey."""
    from onnxfuse.report.wording import printable

    return printable(" ".join(message.split()))


def bug_message(error: BaseException) -> str:
    """One line on an exception that nobody meant to raise."""
    text = one_line(str(error))
    detail = f": {text}" if text else ""
    return f"onnxfuse bug: {type(error).__name__}{detail}; please report it (-v shows the traceback)"


def discard_stdout() -> None:
    """Point file descriptor 1 at nothing, so that later writes and the flush at exit cannot fail."""
    # The errors come from a stdout that is no real file, as under a test runner.
    with contextlib.suppress(OSError, ValueError, AttributeError):
        nothing = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nothing, sys.stdout.fileno())
        os.close(nothing)


class Console:
    """Writes for one command; a reader who closes stdout ends the output, not the work."""

    def __init__(self, color: str, verbosity: int) -> None:
        self.verbosity = verbosity
        self.lost_output = False
        self._stdout_color = wants_color(color, sys.stdout)
        self.colors_stderr = wants_color(color, sys.stderr)
        self._stdout_open = True
        self._said: set[str] = set()

    def style(self, text: str, role: str) -> str:
        """Style for what goes to stdout."""
        return _styled(text, role) if self._stdout_color else text

    def result(self, text: str) -> None:
        """Write ``text`` to stdout as it is; what stdout cannot take (a full disk) is an error, see ``lost_output``."""
        if not self._stdout_open:
            return
        try:
            click.echo(text, nl=False, color=self._stdout_color)
        except BrokenPipeError:
            self._stdout_open = False
            discard_stdout()
        except OSError as error:
            self._stdout_open = False
            discard_stdout()
            self.lost_output = True
            self.error(f"cannot write to standard output: {error.strerror or error}")

    def error(self, message: str) -> None:
        """Write one error line to stderr; the same line is never written twice."""
        self._line("error:", "bad", message)

    def warn(self, message: str) -> None:
        self._line("warning:", "change", message)

    def detail(self, message: str) -> None:
        """Write a line to stderr if the user asked for more (-v)."""
        if self.verbosity > 0:
            self._to_stderr(message)

    def _line(self, label: str, role: str, message: str) -> None:
        line = f"{label} {one_line(message)}"
        if line in self._said:
            return
        self._said.add(line)
        self._to_stderr(line.replace(label, _styled(label, role), 1) if self.colors_stderr else line)

    def _to_stderr(self, line: str) -> None:
        with contextlib.suppress(OSError):
            click.echo(line, err=True, color=self.colors_stderr)


def _styled(text: str, role: str) -> str:
    if role == "faint":
        return click.style(text, dim=True)
    if role == "strong":
        return click.style(text, bold=True)
    return click.style(text, fg=_COLORS[role])
