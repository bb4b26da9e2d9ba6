"""The files that a model's weights lie in: the model file itself and its external data files."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path, PurePosixPath, PureWindowsPath

from onnxfuse.errors import InputError
from onnxfuse.model.weights.source import Source, Span, open_source
from onnxfuse.model.weights.views import View


class DataFiles:
    """Opens the data files of one model, each once; locations are relative to ``folder``."""

    def __init__(self, folder: Path, own: Source | None, names: Mapping[str, str] | None = None) -> None:
        """``own`` is the model file itself, which views into it name by its base name.

        ``names`` gives the locations as the model file spells them, where the skeleton has others (see links.py).
        """
        self.folder = folder
        self.own = own
        self._names = names or {}
        self._opened: dict[str, Source] = {} if own is None else {own.path.name: own}

    @property
    def own_name(self) -> str | None:
        """The location that stands for the model file itself."""
        return None if self.own is None else self.own.path.name

    def external(self) -> dict[str, Source]:
        """Return the external data files opened so far (`load` opens all), by their location in the model file."""
        return {self._names.get(name, name): source for name, source in self._opened.items() if source is not self.own}

    def check_unchanged(self) -> None:
        """Raise InputError when somebody has written to one of the files since it was opened."""
        for source in self._opened.values():
            source.check_unchanged()

    def span(self, view: View, name: str) -> Span:
        """Return the bytes of a view; ``name`` is the tensor's, for messages. Raises InputError."""
        source = self.open(view.location, name)
        length = source.size - view.offset if view.length is None else view.length
        if length < 0 or view.offset + length > source.size:
            raise InputError(
                f"tensor {name!r}: its external data file {view.location} has {source.size} bytes, but "
                f"bytes {view.offset} to {view.offset + max(length, 0)} are needed; get the file again"
            )
        return Span(source, view.offset, length)

    def open(self, location: str, name: str) -> Source:
        """Open the file at an external location of tensor ``name``; raises InputError."""
        if location not in self._opened:
            path = self._inside(location, name)
            self._opened[location] = open_source(path, f"external data of tensor {name!r} at {path}")
        return self._opened[location]

    def _inside(self, location: str, name: str) -> Path:
        """Return the path of a location, refusing any that leaves the model's folder."""
        check_location(location, name)
        path = self.folder / location
        real = Path(os.path.realpath(path))
        if not real.is_relative_to(os.path.realpath(self.folder)):
            raise InputError(
                f"tensor {name!r}: its external data location {location!r} leads outside the model's "
                f"folder, to {real}; put the data file itself beside the model"
            )
        return path


def check_location(location: str, name: str) -> None:
    """Refuse locations that are absolute, go up or name no file, on any platform; raises InputError."""
    windows, posix = PureWindowsPath(location), PurePosixPath(location)
    rooted = windows.drive or windows.root or posix.root
    if "\0" in location or not posix.parts or rooted or ".." in windows.parts or ".." in posix.parts:
        raise InputError(
            f"tensor {name!r}: its external data location {location!r} is not a path inside the model's "
            "folder; put the data file beside the model and export again"
        )
