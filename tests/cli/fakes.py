"""A pipeline that only pretends, for the tests of what the command line makes of its answers."""

from __future__ import annotations

import types
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from onnxfuse.report import Report
from tests.report.samples import report as sample_report


@dataclass
class FakeResult:
    report: Report


@dataclass
class FakePipeline:
    """Stands in for ``onnxfuse.pipeline``; records its calls, answers with ``report`` or raises ``errors[name]``."""

    report: Report = field(default_factory=sample_report)
    errors: dict[str, BaseException] = field(default_factory=dict)
    calls: list[tuple[Path, dict[str, Any]]] = field(default_factory=list)
    checked: list[tuple[tuple[str, ...], dict[str, Any]]] = field(default_factory=list)
    work: Callable[..., None] = lambda **settings: None

    def optimize(self, model: Path, **settings: Any) -> FakeResult:
        self.calls.append((model, settings))
        self.work(**settings)
        if model.name in self.errors:
            raise self.errors[model.name]
        if not settings["dry_run"]:
            settings["output"].write_bytes(b"result")
        described = replace(self.report.model, path=model.as_posix(), output=settings["output"].as_posix())
        return FakeResult(replace(self.report, model=described))

    def check_rules(self, rules: tuple[str, ...], **asked: Any) -> None:
        self.checked.append((rules, asked))

    def as_module(self) -> types.ModuleType:
        module = types.ModuleType("onnxfuse.pipeline")
        module.__dict__.update(optimize=self.optimize, check_rules=self.check_rules)
        return module


def failing(error: BaseException, report: Report) -> BaseException:
    """Attach ``report`` to ``error``, as the pipeline does on a mismatch."""
    error.__dict__["report"] = report
    return error
