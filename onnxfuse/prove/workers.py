"""Parts of a proof in processes of their own, each within limits: one that breaks down takes no other with it."""

from __future__ import annotations

import gc
import multiprocessing
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from typing import Any, Final, Generic, TypeVar

Part = TypeVar("Part")
Outcome = TypeVar("Outcome")

# Processor time for one part; the longest of the shipped rules takes some ten seconds.
SECONDS: Final = 600
# Memory that one process may take; onnxruntime itself needs a few hundred MB.
BYTES: Final = 4 << 30


class Workers(Generic[Part, Outcome]):
    """Runs `prove(setting, part)` for parts, `jobs` at a time; `broken(part)` stands in for one that breaks down."""

    def __init__(
        self, prove: Callable[[Any, Part], Outcome], setting: object, broken: Callable[[Part], Outcome], jobs: int
    ) -> None:
        self._prove, self._setting, self._broken, self._jobs = prove, setting, broken, jobs

    def run(self, parts: Sequence[Part]) -> Iterator[tuple[Part, Outcome]]:
        """Yield the parts with their outcomes, as they are done."""
        left = list(parts)
        while left:
            suspects: list[Part] = []
            yield from self._until_broken(left, suspects)
            for part in suspects:
                yield part, self._alone(part)

    def _until_broken(self, left: list[Part], suspects: list[Part]) -> Iterator[tuple[Part, Outcome]]:
        """Take parts from `left` until there is none, or a process breaks down: `suspects` were being worked on."""
        flying: dict[Future[Outcome], Part] = {}
        with self._pool(min(self._jobs, len(left))) as pool:
            while (left or flying) and not suspects:
                try:
                    while left and len(flying) < 2 * self._jobs:
                        flying[pool.submit(_work, left[0])] = left[0]
                        del left[0]
                except BrokenProcessPool:
                    break
                for future in wait(flying, return_when=FIRST_COMPLETED).done:
                    part = flying.pop(future)
                    try:
                        outcome = future.result()
                    except BrokenProcessPool:
                        suspects.append(part)
                    except MemoryError:
                        yield part, self._broken(part)
                    else:
                        yield part, outcome
            suspects += flying.values()

    def _alone(self, part: Part) -> Outcome:
        with self._pool(1) as pool:
            try:
                future: Future[Outcome] = pool.submit(_work, part)
                return future.result()
            except (BrokenProcessPool, MemoryError):
                return self._broken(part)

    def _pool(self, jobs: int) -> ProcessPoolExecutor:
        # A process that has threads must not be forked: onnxruntime and the caller may have started some.
        context = multiprocessing.get_context("spawn")
        return ProcessPoolExecutor(jobs, context, _start, (self._prove, self._setting))


_worker: list[tuple[Callable[[Any, Any], Any], object]] = []


def _start(prove: Callable[[Any, Any], Any], setting: object) -> None:
    # The many small graphs are freed part by part: to look for cycles meanwhile, or among the modules, takes long.
    gc.disable()
    gc.freeze()
    _limit_memory()
    _worker.append((prove, setting))


def _work(part: Any) -> Any:
    ((prove, setting),) = _worker
    _limit_time(SECONDS)
    outcome = prove(setting, part)
    _limit_time(0)
    gc.collect()
    return outcome


def _limit_memory() -> None:
    """Let what asks for more memory fail in this process, before the machine has none left."""
    if sys.platform != "win32":
        import resource

        _, most = resource.getrlimit(resource.RLIMIT_DATA)
        if most == resource.RLIM_INFINITY or most > BYTES:
            resource.setrlimit(resource.RLIMIT_DATA, (BYTES, most))


def _limit_time(seconds: int) -> None:
    """Let the system end this process after so much processor time, also within an operator; 0: after none."""
    if sys.platform != "win32":
        signal.setitimer(signal.ITIMER_PROF, seconds)
