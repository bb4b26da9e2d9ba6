"""Optimise the models of a plan one after the other; say, write and count how each went."""

from __future__ import annotations

import gc
import traceback
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from onnxfuse.cli.console import Console, bug_message, one_line
from onnxfuse.cli.files import check_targets, write_text
from onnxfuse.cli.jobs import Job, OutputFolder, Plan
from onnxfuse.cli.params import STDOUT, ReportTarget
from onnxfuse.cli.progress import ProgressBar
from onnxfuse.errors import InternalError, OnnxfuseError, OutputError, ProviderError, RuleError

if TYPE_CHECKING:
    from onnxfuse.report import Report
    from onnxfuse.report.formats import Outcome

# What is wrong with the call itself, and so with every further model.
_HOPELESS = (RuleError, ProviderError)


@dataclass(frozen=True)
class Session:
    """What all models of one command share; ``settings`` are further arguments of ``onnxfuse.pipeline.optimize``."""

    console: Console
    reports: tuple[ReportTarget, ...]
    progress: bool
    settings: Mapping[str, Any]


def run(plan: Plan, session: Session) -> int:
    """Do all jobs and return the highest of their exit codes. Raises UsageError and OutputError before any work."""
    check_targets(session.reports, [path for job in plan.jobs for path in (job.model, job.output)])
    _verify_rules(session)
    outcomes = [_failed(path, error, session) for path, error in plan.failures]
    with OutputFolder(plan.folder if plan.jobs else None):
        outcomes += _optimize_all(plan.jobs, session)
    codes = [outcome.exit_code for outcome in outcomes]
    codes += [_write(target, outcomes, plan.several, session) for target in session.reports]
    return max([*codes, 2 if session.console.lost_output else 0])


def _verify_rules(session: Session) -> None:
    """Prove the user's rules on all cores; `optimize` finds them proven then."""
    rules, settings = session.settings["rules"], session.settings
    if rules and settings["verify_rules"]:
        from onnxfuse.pipeline import check_rules

        with ProgressBar("rules", session.console, session.progress) as bar:
            check_rules(rules, select=settings["select"], ignore=settings["ignore"], jobs=None, progress=bar)


def _optimize_all(jobs: tuple[Job, ...], session: Session) -> list[Outcome]:
    outcomes: list[Outcome] = []
    live = all(target.file != STDOUT for target in session.reports)
    if jobs and session.settings["validate"]:
        _warn_of_conflict(session.console)
    for job in jobs:
        outcome, hopeless = _optimize(job, session)
        outcomes.append(outcome)
        if len(jobs) > 1:
            gc.collect()  # a model's graph is full of cycles
        if live:
            _show(outcome, len(outcomes) == 1, session.console)
        if hopeless:
            break
    return outcomes


def _optimize(job: Job, session: Session) -> tuple[Outcome, bool]:
    """Optimise one model; second, whether the error (if any) would meet every other model, too."""
    from onnxfuse.report.formats import Outcome

    try:
        report = _call(job, session)
    except _HOPELESS as error:
        return _failed(str(job.model), error, session), True
    except Exception as error:
        return _failed(str(job.model), error, session), False
    return Outcome(job.model.as_posix(), report), False


def _call(job: Job, session: Session) -> Report:
    from onnxfuse.pipeline import optimize

    with ProgressBar(job.model.name, session.console, session.progress) as bar:
        result = optimize(job.model, output=job.output, progress=bar, **session.settings)
    return result.report


def _failed(path: str, error: Exception, session: Session) -> Outcome:
    """Say on stderr what went wrong with ``path``."""
    from onnxfuse.report.formats import Outcome

    message, code = say_error(path, error, session.console)
    return Outcome(Path(path).as_posix(), getattr(error, "report", None), message, code)


def say_error(path: str, error: Exception, console: Console) -> tuple[str, int]:
    """Say on stderr what went wrong with ``path``; return the sentence, which names it, and the exit code."""
    if console.verbosity > 0 and _is_bug(error):
        console.detail("".join(traceback.format_exception(error)).rstrip())
    message, code = _explain(error)
    message = one_line(message)
    if one_line(path) not in message:
        message = f"{one_line(path)}: {message}"
    console.error(message)
    return message, code


def _explain(error: Exception) -> tuple[str, int]:
    if isinstance(error, MemoryError):
        return "ran out of memory", 2
    if isinstance(error, OSError):
        return ": ".join(str(part) for part in (error.filename, error.strerror or error) if part is not None), 2
    if isinstance(error, OnnxfuseError) and not isinstance(error, InternalError):
        return str(error), error.exit_code
    return bug_message(error), InternalError.exit_code


def _is_bug(error: Exception) -> bool:
    return _explain(error)[1] == InternalError.exit_code


def _show(outcome: Outcome, first: bool, console: Console) -> None:
    """Write the text report of one model to stdout, as soon as there is one."""
    if outcome.report is None:
        return
    from onnxfuse.report.text import render

    blank = "" if first or console.verbosity < 0 else "\n"
    console.result(blank + render(outcome.report, verbosity=console.verbosity, style=console.style))


def _write(target: ReportTarget, outcomes: list[Outcome], several: bool, session: Session) -> int:
    """Write one report and return the exit code of that. One model that failed without a report leaves no file."""
    if not several and all(outcome.report is None for outcome in outcomes):
        return 0
    from onnxfuse.report.formats import FORMATS
    from onnxfuse.report.wording import plain

    to_stdout = target.file == STDOUT
    style = session.console.style if to_stdout else plain
    text = FORMATS[target.format](outcomes, several, max(session.console.verbosity, 0), style)
    if to_stdout:
        session.console.result(text)
        return 0
    try:
        write_text(target.file, text)
    except OutputError as error:
        session.console.error(str(error))
        return error.exit_code
    return 0


def _warn_of_conflict(console: Console) -> None:
    """Both distributions of onnxruntime install into one folder, and the later one wins by chance."""
    from onnxfuse.validate.providers import install_warning

    if warning := install_warning():
        console.warn(warning)
