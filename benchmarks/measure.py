"""What the benchmarks share: run a command in a process of its own and measure it.

Only the standard library is imported here: a child started by a large process would inherit its peak memory. Bytecode
is kept in a folder of the benchmark's own, as an installation keeps it, whatever PYTHONDONTWRITEBYTECODE says.
"""

from __future__ import annotations

import atexit
import functools
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass
from pathlib import Path

MB = 1e6
_POLL_S = 0.01


@dataclass(frozen=True)
class Usage:
    """One run of a command.

    `cpu_seconds` is what it computed, whatever else the machine did. `peak_mb` counts mapped file pages too,
    `anonymous_mb` (None outside Linux) does not.
    """

    seconds: float
    cpu_seconds: float
    peak_mb: float
    anonymous_mb: float | None


def onnxfuse(*arguments: str) -> list[str]:
    """Return the command line of onnxfuse in this Python."""
    return [sys.executable, "-m", "onnxfuse", *arguments]


def run(command: list[str], watch: bool = False) -> Usage:
    """Run a command to its end; `watch` samples its anonymous memory, which takes some of its time.

    Raises RuntimeError if it fails.
    """
    start = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, env=_environment())
    watcher = _Watcher(process.pid)
    if watch:
        watcher.start()
    _, status, usage = os.wait4(process.pid, 0)
    seconds = time.perf_counter() - start
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise RuntimeError(f"exit code {process.returncode}: {' '.join(command)}")
    unit = 1 if sys.platform == "darwin" else 1024
    cpu = usage.ru_utime + usage.ru_stime
    return Usage(seconds, cpu, usage.ru_maxrss * unit / MB, watcher.peak_mb if watch else None)


@functools.cache
def _environment() -> dict[str, str]:
    folder = tempfile.mkdtemp(prefix="onnxfuse-bytecode-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return {**kept, "PYTHONPYCACHEPREFIX": folder}


class _Watcher(threading.Thread):
    """Samples the anonymous memory of a process: what it holds itself, without the pages of mapped files."""

    def __init__(self, pid: int) -> None:
        super().__init__(daemon=True)
        self._path = Path(f"/proc/{pid}/smaps_rollup")
        self.peak_mb: float | None = None

    def run(self) -> None:
        while (kilobytes := self._anonymous()) is not None:
            self.peak_mb = max(self.peak_mb or 0.0, kilobytes * 1024 / MB)
            time.sleep(_POLL_S)

    def _anonymous(self) -> int | None:
        try:
            lines = self._path.read_text().splitlines()
        except OSError:
            return None
        return next((int(line.split()[1]) for line in lines if line.startswith("Anonymous:")), None)
