"""A progress bar on a terminal, for phases that take more than a second."""

from __future__ import annotations

import sys
import threading
from typing import TYPE_CHECKING

from onnxfuse.cli.console import Console, is_terminal

if TYPE_CHECKING:
    from rich.progress import Progress as RichProgress
    from rich.progress import TaskID

_PATIENCE = 1.0  # seconds


class ProgressBar:
    """Follows the phases of one optimisation; use as a context manager, call it as an ``onnxfuse.progress.Progress``.

    The bar appears on stderr from a timer, so that a phase which reports nothing for long is shown, too. Off a
    terminal nothing is drawn; with -v each phase is named in a line.
    """

    def __init__(self, title: str, console: Console, enabled: bool) -> None:
        self._title = title
        self._console = console
        self._drawn = enabled and console.verbosity >= 0 and is_terminal(sys.stderr)
        self._lock = threading.Lock()
        self._phase: str | None = None
        self._done, self._total = 0, 0
        self._timer: threading.Timer | None = None
        self._bar: tuple[RichProgress, TaskID] | None = None

    def __enter__(self) -> ProgressBar:
        return self

    def __exit__(self, *raised: object) -> None:
        with self._lock:
            self._hide()

    def __call__(self, phase: str, done: int, total: int) -> None:
        with self._lock:
            self._done, self._total = done, total
            if phase != self._phase:
                self._begin(phase)
            elif self._bar is not None:
                bar, task = self._bar
                bar.update(task, completed=done, total=total or None)

    def _begin(self, phase: str) -> None:
        self._hide()
        self._phase = phase
        if not self._drawn:
            self._console.detail(f"{self._title}: {phase}")
            return
        self._timer = threading.Timer(_PATIENCE, self._show, (phase,))
        self._timer.daemon = True
        self._timer.start()

    def _show(self, phase: str) -> None:
        """Draw the bar, unless the phase ended meanwhile."""
        bar = _new_bar(self._console.colors_stderr)
        with self._lock:
            if phase != self._phase or self._timer is None:
                return
            task = bar.add_task(f"{self._title}: {phase}", completed=self._done, total=self._total or None)
            bar.start()
            self._bar = (bar, task)

    def _hide(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._bar is not None:
            self._bar[0].stop()
            self._bar = None


def _new_bar(colored: bool) -> RichProgress:
    from rich.console import Console as RichConsole
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    text = TextColumn("{task.description}", markup=False)
    console = RichConsole(stderr=True, no_color=not colored)
    columns = (text, BarColumn(), TimeElapsedColumn())
    return Progress(*columns, console=console, transient=True, refresh_per_second=4)
