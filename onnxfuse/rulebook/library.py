"""Where the built-in rules lie."""

from __future__ import annotations

from pathlib import Path

from onnxfuse.errors import InternalError

_PACKAGE = Path(__file__).resolve().parent.parent


def builtin_rules_dir() -> Path:
    """Return the folder of the rules that come with onnxfuse.

    A wheel carries them inside the package; a checkout, and so an editable install, has them at its top.

    Raises:
        InternalError: there is no such folder, so the installation is damaged.
    """
    for folder in (_PACKAGE / "_rules", _PACKAGE.parent / "rules"):
        if folder.is_dir():
            return folder
    raise InternalError(f"The built-in rules are missing beside {_PACKAGE}; install onnxfuse again.")
