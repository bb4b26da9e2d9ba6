"""The entry point: runs a command and maps every way it can end to an exit code.

0 done, 1 the gate says no, 2 wrong use or unusable input, 3 a bug in onnxfuse, 130 interrupted.
"""

from __future__ import annotations

import contextlib
import gc
import sys
from collections.abc import Sequence

INTERRUPTED = 130


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line ``argv`` (default: the process's own) and return its exit code; never raises."""
    args = list(sys.argv[1:] if argv is None else argv)
    if argv is None:
        gc.disable()  # a tenth of the start-up time; between models, run.py collects
    try:
        code = _run(args)
    except KeyboardInterrupt:
        _say("interrupted")
        code = INTERRUPTED
    except Exception as error:
        code = _unexpected(error, args)
    if argv is None:
        gc.freeze()  # the process ends: no need to look once more through all that it made
    return _flushed(code)


def _run(args: list[str]) -> int:
    import click

    from onnxfuse.cli.console import make_streams_safe, one_line
    from onnxfuse.cli.root import root
    from onnxfuse.errors import OnnxfuseError

    make_streams_safe()
    try:
        return _dispatch(root, args)
    except click.exceptions.Exit as stop:
        return stop.exit_code
    except click.UsageError as error:
        _say(f"error: {_usage_message(error)}")
        return 2
    except click.ClickException as error:
        _say(f"error: {error.format_message()}")
        return 2
    except OnnxfuseError as error:
        _say(f"error: {one_line(str(error))}")
        return error.exit_code
    except BrokenPipeError:
        return 0
    except OSError as error:
        return _failed(error)


def _failed(error: OSError) -> int:
    """Say that a stream or a file failed; an error of writing to stdout carries no file name."""
    from onnxfuse.cli.console import discard_stdout

    if error.filename is not None:
        _say(f"error: {error}")
        return 2
    discard_stdout()
    _say(f"error: cannot write to standard output: {error.strerror or error}")
    return 2


def _dispatch(root: object, args: list[str]) -> int:
    """Run ``root`` without click's own ``main``, which would end a closed pipe and an interrupt with exit code 1."""
    import os

    import click

    assert isinstance(root, click.Group)
    instruction = os.environ.get("_ONNXFUSE_COMPLETE")
    if instruction:
        from click.shell_completion import shell_complete

        return shell_complete(root, {}, "onnxfuse", "_ONNXFUSE_COMPLETE", instruction)
    with root.make_context("onnxfuse", args) as context:
        if not args:
            click.echo(context.get_help(), err=True)
            return 2
        code = root.invoke(context)
    return code if isinstance(code, int) else 0


def _usage_message(error: object) -> str:
    """The message and where to read more, in one line."""
    import click

    from onnxfuse.cli.console import one_line

    assert isinstance(error, click.UsageError)
    command = error.ctx.command_path if error.ctx is not None else "onnxfuse"
    message = one_line(error.format_message())
    end = "" if message.endswith((".", "?", "!")) else "."
    return f"{message}{end} See '{command} --help'."


def _unexpected(error: Exception, args: list[str]) -> int:
    if any(arg == "--verbose" or (arg.startswith("-v") and set(arg[1:]) == {"v"}) for arg in args):
        import traceback

        traceback.print_exception(error)
    from onnxfuse.cli.console import bug_message

    _say(f"error: {bug_message(error)}")
    return 3


def _say(message: str) -> None:
    """Write a line to stderr, which may be closed."""
    with contextlib.suppress(OSError, ValueError):
        if sys.stderr is not None:
            sys.stderr.write(message + "\n")
            sys.stderr.flush()


def _flushed(code: int) -> int:
    """Flush stdout now, so that the interpreter does not complain of a closed pipe on its way out."""
    try:
        if sys.stdout is not None:
            sys.stdout.flush()
    except BrokenPipeError:
        from onnxfuse.cli.console import discard_stdout

        discard_stdout()
    except (OSError, ValueError) as error:
        from onnxfuse.cli.console import discard_stdout

        discard_stdout()
        _say(f"error: cannot write to standard output: {error}")
        return max(code, 2)
    return code
