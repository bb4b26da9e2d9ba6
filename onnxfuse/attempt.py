"""Attempts at one model: each rewrites it from its start, at some opset, and has the result judged."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Set
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from onnx import ModelProto

from onnxfuse.errors import OpsetError
from onnxfuse.match.pattern import Pattern
from onnxfuse.model.editable import EditableModel
from onnxfuse.model.file import ModelFile
from onnxfuse.model.patch import patched, with_weights_apart
from onnxfuse.progress import Progress
from onnxfuse.report.survey import default_opset
from onnxfuse.rewrite.engine import HigherOpset, rewrite
from onnxfuse.rewrite.flatten import flatten
from onnxfuse.rewrite.leftovers import drop_unused
from onnxfuse.rewrite.trace import Fusion, Site, Trace
from onnxfuse.targets import PORTABLE

if TYPE_CHECKING:
    from onnxfuse.validate import Undone, Validation

# Tells whether a rule may be applied at a site.
Permits: TypeAlias = Callable[[Site], bool]


def everywhere(_: Site) -> bool:
    """Permit every site."""
    return True


@dataclass(frozen=True)
class Attempt:
    """What one rewriting made of the model, and what was found when it was judged (None: it was not).

    ``notes`` are sentences on what was done to the model beside fusions.
    """

    result: ModelFile
    trace: Trace
    notes: tuple[str, ...]
    validation: Validation | None

    @property
    def good(self) -> bool:
        """Whether nothing speaks against the result."""
        return self.validation is None or self.validation.ok

    @property
    def opset(self) -> int | None:
        """The opset of the result."""
        return default_opset(self.result.proto)


@dataclass(frozen=True)
class Mended:
    """The best that could be made of a model, and what was undone for that."""

    attempt: Attempt
    undone: tuple[Undone, ...] = ()


class Attempts:
    """Rewrites one model as often as asked; equal arguments give equal results."""

    def __init__(
        self,
        original: ModelFile,
        patterns: tuple[Pattern, ...],
        steps: Set[str],
        judge: Callable[[ModelFile], Validation] | None,
        progress: Progress,
    ) -> None:
        self.original = original
        self._patterns, self._steps, self._judge, self._progress = patterns, steps, judge, progress

    def make(self, opset: str | int, *, permits: Permits = everywhere, without: Set[str] = frozenset()) -> Attempt:
        """Rewrite the model and judge the result; rules only where ``permits``, and ``without`` some clean-up steps."""
        rewriting = _Rewriting(self.original, self._patterns, self._steps - without, permits, self._progress)
        with _collector_paused():
            result = rewriting.run(opset)
        notes = (*rewriting.notes, *_version_changes(self.original.proto, result.proto))
        return Attempt(result, rewriting.trace, notes, self._judged(result))

    def only_raised(self, opset: int) -> Attempt:
        """Raise the model to an opset, do nothing else, and judge the result."""
        result = _raised(self.original, opset)
        notes = tuple(_version_changes(self.original.proto, result.proto))
        return Attempt(result, Trace(), notes, self._judged(result))

    def _judged(self, result: ModelFile) -> Validation | None:
        return None if self._judge is None else self._judge(result)


class _Rewriting:
    """One rewriting, at the opset that is asked for or that its fusions need."""

    def __init__(
        self,
        original: ModelFile,
        patterns: tuple[Pattern, ...],
        steps: Set[str],
        permits: Permits,
        progress: Progress,
    ) -> None:
        self._original, self._patterns, self._steps = original, patterns, steps
        self._permits, self._progress = permits, progress
        self._ceiling = 0
        self.trace = Trace()
        self.notes: list[str] = []

    def run(self, opset: str | int) -> ModelFile:
        """Return the model rewritten."""
        self._ceiling = PORTABLE.max_opset if opset == "auto" else 0
        wanted = opset if isinstance(opset, int) else default_opset(self._original.proto)
        base, fusions = self._flattened(self._original)
        start = base
        if wanted is not None and wanted != default_opset(base.proto):
            start = _raised(base, wanted)
        while True:
            editable, start = self._rewrite(base, start)
            result = patched(editable) if self.trace.fusions else start
            fusions += self.trace.fusions
            # Rules may have shown what a condition is.
            base, flattened = self._flattened(result) if self.trace.fusions else (result, [])
            if not flattened:
                break
            fusions += flattened
            start = base
        result, unused = drop_unused(result, self._steps)
        self.trace.fusions = [*fusions, *unused]
        return result

    def _flattened(self, file: ModelFile) -> tuple[ModelFile, list[Fusion]]:
        return flatten(file, self._steps, {op for pattern in self._patterns for op in pattern.operators})

    def _rewrite(self, base: ModelFile, start: ModelFile) -> tuple[EditableModel, ModelFile]:
        """Rewrite a model from `start`: `base` itself, or that at a higher opset, as often as a fusion needs one."""
        editable = None
        while True:
            editable = EditableModel(start, editable)
            try:
                self.trace = rewrite(
                    editable,
                    self._patterns,
                    steps=self._steps,
                    max_opset=self._ceiling,
                    permits=self._permits,
                    ask_first=start is base,
                    progress=self._progress,
                )
            except HigherOpset as need:
                start = self._raise(base, start, need.opset)
            else:
                return editable, start

    def _raise(self, base: ModelFile, start: ModelFile, opset: int) -> ModelFile:
        """Return `base` at a higher opset; where that cannot be, note why, ask no more, and return `start`."""
        try:
            return _raised(base, opset)
        except OpsetError as error:
            self.notes.append(f"the opset is kept below {opset}, which fusions need: {error}")
            self._ceiling = opset - 1
            return start


@contextmanager
def _collector_paused() -> Iterator[None]:
    """Pause Python's cycle collector: it would look at the whole growing graph again and again, in quadratic time."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def _version_changes(before: ModelProto, after: ModelProto) -> Iterator[str]:
    """Yield sentences on what changed in the header of the model."""
    if default_opset(before) != default_opset(after):
        yield f"opset {default_opset(before)} -> {default_opset(after)}"
    if before.ir_version != after.ir_version:
        unlisted = len(before.graph.input) - len(after.graph.input)
        weights = f": {unlisted} weights are no longer listed as graph inputs" if unlisted else ""
        yield f"IR version {before.ir_version} -> {after.ir_version}{weights}"


def _raised(original: ModelFile, opset: int) -> ModelFile:
    from onnxfuse.model.opset import raise_opset  # most models need no raising

    return raise_opset(with_weights_apart(original), opset)
