"""The wheel carries the rules, whether it is built from the checkout or from the source distribution."""

from __future__ import annotations

import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
RULES = {path.relative_to(ROOT / "rules").as_posix() for path in (ROOT / "rules").rglob("*.toml")}


def build(kind: str, source: Path, folder: Path) -> Path:
    """Build the distribution of that kind (wheel or sdist) with the project's own build backend; no network."""
    command = [sys.executable, "-m", "hatchling", "build", "-t", kind, "-d", str(folder)]
    subprocess.run(command, cwd=source, check=True, capture_output=True)
    return next(folder.glob("*.whl" if kind == "wheel" else "*.tar.gz"))


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build("wheel", ROOT, tmp_path_factory.mktemp("wheel"))


def test_wheel_holds_every_rule(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    assert RULES
    assert {f"onnxfuse/_rules/{rule}" for rule in RULES} <= names
    assert "onnxfuse/py.typed" in names


def test_installed_package_finds_its_own_rules(wheel: Path, tmp_path: Path) -> None:
    zipfile.ZipFile(wheel).extractall(tmp_path)
    code = "from onnxfuse.rulebook.library import builtin_rules_dir; print(builtin_rules_dir())"
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, check=True, capture_output=True, text=True)
    assert Path(done.stdout.strip()) == (tmp_path / "onnxfuse" / "_rules").resolve()


def test_checkout_uses_the_rules_at_its_top() -> None:
    from onnxfuse.rulebook.library import builtin_rules_dir

    assert builtin_rules_dir() == ROOT / "rules"


def test_source_distribution_builds_the_same_wheel(wheel: Path, tmp_path: Path) -> None:
    archive = build("sdist", ROOT, tmp_path / "sdist")
    with tarfile.open(archive) as tar:
        tar.extractall(tmp_path, filter="data")
    source = next(path for path in tmp_path.iterdir() if (path / "pyproject.toml").exists())
    again = build("wheel", source, tmp_path / "again")
    assert zipfile.ZipFile(again).namelist() == zipfile.ZipFile(wheel).namelist()
