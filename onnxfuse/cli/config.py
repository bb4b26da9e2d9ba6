"""The configuration file: ``onnxfuse.toml``, or ``[tool.onnxfuse]`` in ``pyproject.toml``.

An option that is not given on the command line is taken from its variable ``ONNXFUSE_<OPTION>``, else from the file,
else it has its default. A key of the file is an option without its dashes: ``rtol = 1e-3``, ``forbid-op = ["Erf"]``.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import click

from onnxfuse.cli.help import GroupedOption
from onnxfuse.cli.params import suggestion

F = TypeVar("F", bound=Callable[..., Any])

# Options that say where settings come from, or what one call shows.
_NOT_SETTINGS = {"config", "isolated", "help", "form", "output", "dry_run", "in_place", "exit_zero"}
# What may be set for one model beside its path.
_MODEL_KEYS = ("path", "expect", "baseline", "max-nodes", "rtol", "atol", "opset", "seed")


class _File(NamedTuple):
    path: Path
    text: str
    table: Mapping[str, Any]

    def fail(self, key: str, message: str) -> click.UsageError:
        """Return an error that names the line of a key."""
        found = re.search(rf"""^\s*["']?{re.escape(key)}["']?\s*=""", self.text, re.MULTILINE)
        line = self.text.count("\n", 0, found.end()) + 1 if found else 1
        return click.UsageError(f"{self.path}:{line}: {message}")


def config_options(command: F) -> F:
    """Add ``--config`` and ``--isolated`` to a command, whose other options then take their defaults from the file."""
    isolated = click.option(
        "--isolated",
        cls=GroupedOption,
        is_flag=True,
        is_eager=True,
        expose_value=False,
        callback=_isolate,
        help="Read no configuration file.",
    )
    config = click.option(
        "--config",
        cls=GroupedOption,
        metavar="FILE",
        is_eager=True,
        expose_value=False,
        callback=_configure,
        help="The configuration file.  [default: onnxfuse.toml, or pyproject.toml with [tool.onnxfuse], here or in a "
        "folder above]",
    )
    return isolated(config(command))


def _isolate(ctx: click.Context, _: click.Parameter, value: bool) -> None:
    ctx.meta["onnxfuse.isolated"] = value


def _configure(ctx: click.Context, _: click.Parameter, value: str | None) -> None:
    if ctx.resilient_parsing:
        return
    if value is None and ctx.meta.get("onnxfuse.isolated"):
        return
    file = _found(Path.cwd()) if value is None else _read(Path(value))
    if file is None:
        return
    known = {_key(p): p for p in ctx.command.params if isinstance(p, click.Option) and p.name not in _NOT_SETTINGS}
    settings = {key: item for key, item in file.table.items() if key not in ("check", "model")}
    if ctx.command.name == "check":
        settings |= _table(file, "check")
        ctx.meta["onnxfuse.models"] = dict(_models(file))
    _refuse_unknown(file, settings, [*known, *_gate_keys(ctx)])
    ctx.default_map = {
        str(known[key].name): _several(item) if getattr(known[key], "multiple", False) else item
        for key, item in settings.items()
        if key in known
    }


def _gate_keys(ctx: click.Context) -> list[str]:
    """Return the options of the other commands that read the same file."""
    root = ctx.find_root().command
    assert isinstance(root, click.Group)
    commands = [root.get_command(ctx, name) for name in ("check", "optimize")]
    return [_key(p) for command in commands if command for p in command.params if isinstance(p, click.Option)]


def _key(param: click.Parameter) -> str:
    return str(param.name).replace("_", "-")


def _several(item: object) -> object:
    return [item] if isinstance(item, str | int | float) else item


def _refuse_unknown(file: _File, settings: Mapping[str, Any], known: list[str]) -> None:
    for key in settings:
        if key not in known:
            raise file.fail(key, f"unknown key {key!r}{suggestion(key, known)}")


def _table(file: _File, name: str) -> Mapping[str, Any]:
    table = file.table.get(name, {})
    if not isinstance(table, Mapping):
        raise file.fail(name, f"{name!r} must be a table")
    return table


def _models(file: _File) -> Mapping[str, Mapping[str, Any]]:
    """Return the settings of each model of the file, by its path, which is relative to the file."""
    entries = file.table.get("model", [])
    if not isinstance(entries, list) or not all(isinstance(entry, Mapping) and "path" in entry for entry in entries):
        raise file.fail("model", "'model' must be an array of tables, each with a path")
    found: dict[str, Mapping[str, Any]] = {}
    for entry in entries:
        _refuse_unknown(file, entry, list(_MODEL_KEYS))
        settings = {key.replace("-", "_"): item for key, item in entry.items() if key != "path"}
        for key in ("expect", "baseline"):
            if key in settings:
                settings[key] = str(file.path.parent / settings[key])
        found[str(file.path.parent / entry["path"])] = settings
    return found


def _found(folder: Path) -> _File | None:
    """Return the nearest file in a folder or above it."""
    for place in (folder, *folder.parents):
        if (place / "onnxfuse.toml").is_file():
            return _read(place / "onnxfuse.toml")
        project = place / "pyproject.toml"
        if project.is_file() and "[tool.onnxfuse" in project.read_text("utf-8", errors="replace"):
            return _read(project)
    return None


def _read(path: Path) -> _File:
    try:
        text = path.read_text("utf-8")
        table = tomllib.loads(text)
    except OSError as error:
        raise click.UsageError(f"{path}: cannot be read: {error.strerror or error}") from error
    except (ValueError, RecursionError) as error:
        raise click.UsageError(f"{path}: is not TOML: {error}") from error
    if path.name == "pyproject.toml":
        table = table.get("tool", {}).get("onnxfuse", {})
    return _File(path, text, table)
