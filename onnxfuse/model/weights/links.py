"""Models reached through a symbolic link, as download caches keep them.

There the model and its data files are links into another folder. onnxruntime opens a skeleton only if its data lies in
the skeleton's folder, so the skeleton gets the folder and the names that the links lead to.
"""

from __future__ import annotations

import os
from pathlib import Path

from onnx import ModelProto

from onnxfuse.errors import InputError
from onnxfuse.model.weights import views
from onnxfuse.model.weights.data import check_location
from onnxfuse.model.weights.packing import tensors


def target(path: Path) -> Path:
    """Return the file that a link leads to, ``path`` itself if it is none; never raises."""
    return Path(os.path.realpath(path)) if os.path.islink(path) else path


def follow(proto: ModelProto, path: Path) -> tuple[Path, dict[str, str]]:
    """Return the folder of the real file at ``path``, with the locations in ``proto`` made relative to that.

    Also returns for each new location what it was. Raises InputError for data that lies elsewhere.
    """
    real = target(path)
    if real == path:
        return path.parent, {}
    names = {}
    for tensor in tensors(proto):
        view = views.view_of(tensor)
        if view is None or view.location == real.name:
            continue
        check_location(view.location, tensor.name)
        file = Path(os.path.realpath(path.parent / view.location))
        if not file.is_relative_to(real.parent):
            raise InputError(
                f"tensor {tensor.name!r}: its external data is {file}, but {path} is a link to {real}; "
                "put both files into one folder"
            )
        location = file.relative_to(real.parent).as_posix()
        names[location] = view.location
        next(entry for entry in tensor.external_data if entry.key == "location").value = location
    return real.parent, names
