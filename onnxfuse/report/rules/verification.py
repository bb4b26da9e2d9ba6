"""How rules fared when they were verified: as text, as JSON, and as JUnit XML for continuous integration."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

from onnxfuse.report import strict_json
from onnxfuse.report.wording import Style, counted, number, plain, printable

if TYPE_CHECKING:
    from onnxfuse.prove import FormProof, Problem, RuleProof, Verification
    from onnxfuse.rulebook.checks.finding import Finding

SCHEMA_VERSION = 1
_INDENT = "  "
_PROBLEMS = 3  # how many are shown of each rule, unless all are asked for

# Says of a rule which file it comes from, None: it is built in.
Place = Callable[["RuleProof"], str | None]


def text(found: Verification, lint: Sequence[Finding] = (), *, verbosity: int = 0, style: Style = plain) -> str:
    """Return a line for each rule and form, what is wrong with it and what lint says below, and the verdict last.

    `verbosity` below 0: the verdict only; above 0: every problem, and why cases did not run.
    """
    lines = [] if verbosity < 0 else [*_lines(found, lint, verbosity > 0, style)]
    return "".join(line + "\n" for line in [*lines, _verdict(found, style)])


def _lines(found: Verification, lint: Sequence[Finding], every: bool, style: Style) -> Iterator[str]:
    width = max((len(proof.rule) for proof in found.rules), default=0)
    for proof in found.rules:
        yield f"{_mark(proof.ok, style)} {proof.rule:{width}}  {', '.join(_facts(proof))}"
        if every:
            yield from (f"{_INDENT}- {count} not run: {why}" for why, count in sorted(proof.not_run.items()))
        yield from _problems(proof.problems, every, style)
        yield from (f"{_INDENT}- lint: {printable(str(finding))}" for finding in lint if finding.rule == proof.rule)
    for form in found.forms:
        if every or not form.ok:
            facts = [counted(form.spellings, "spelling"), counted(form.run, "case"), *_not_run(form.not_run)]
            yield f"{_mark(form.ok, style)} form {form.form}  {', '.join(facts)}"
        yield from _problems(form.problems, every, style)


def _facts(proof: RuleProof) -> list[str]:
    worst = max(proof.worst, key=lambda name: proof.worst[name], default=None)
    return [
        counted(proof.run, "case"),
        *_not_run(sum(proof.not_run.values())),
        f"{proof.fired:,} fused",
        f"{proof.refused:,} refused",
        *([f"{worst} off by {number(100 * proof.worst[worst])} % of what is allowed"] if worst and proof.ok else []),
    ]


def _not_run(count: int) -> list[str]:
    return [f"{count:,} not run"] if count else []


def _problems(problems: Sequence[Problem], every: bool, style: Style) -> Iterator[str]:
    shown = problems if every else problems[:_PROBLEMS]
    for problem in shown:
        yield f"{_INDENT}{style('!', 'bad')} {printable(' '.join(str(problem).split()))}"
    if len(shown) < len(problems):
        yield f"{_INDENT}{style('!', 'bad')} and {len(problems) - len(shown)} more (-v shows all)"


def _proofs(found: Verification) -> list[RuleProof | FormProof]:
    return [*found.rules, *found.forms]


def _mark(ok: bool, style: Style) -> str:
    return style("+", "good") if ok else style("!", "bad")


def _verdict(found: Verification, style: Style) -> str:
    wrong = sum(not proof.ok for proof in _proofs(found))
    cases = sum(proof.run for proof in _proofs(found))
    word = style("verified", "good") if found.ok else style(f"{wrong} wrong", "bad")
    return (
        f"{_mark(found.ok, style)} {counted(len(found.rules), 'rule')}, {counted(len(found.forms), 'form')}: {word}, "
        f"{counted(cases, 'case')} in {found.seconds:.1f} s, seed {found.seed}"
    )


def to_json(found: Verification, lint: Sequence[Finding], place: Place) -> str:
    """Return strict JSON without clock times, so that equal rules, seeds and versions give equal bytes."""
    rules = [_without_times(record) for record in found.to_dict()["rules"]]
    for record, proof in zip(rules, found.rules, strict=True):
        record["path"] = place(proof)
        keys = ("line", "column", "message", "fix")
        record["lint"] = [{key: getattr(f, key) for key in keys} for f in lint if f.rule == proof.rule]
    forms = [_without_times(record) for record in found.to_dict()["forms"]]
    document = {"schema_version": SCHEMA_VERSION, "ok": found.ok, "seed": found.seed, "rules": rules, "forms": forms}
    return strict_json.dumps(document)


def _without_times(record: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in record.items() if key != "seconds"}


def to_junit(found: Verification, lint: Sequence[Finding], place: Place) -> str:
    """Return JUnit XML: a test case for each rule and each form."""
    suite = ElementTree.Element("testsuite", name="onnxfuse rules verify", time=f"{found.seconds:.3f}")
    for proof in found.rules:
        case = _case(suite, "rules", proof.rule, proof)
        case.set("time", f"{proof.seconds:.3f}")
        if path := place(proof):
            case.set("file", path)
        said = (f"lint: {finding}" for finding in lint if finding.rule == proof.rule)
        _child(case, "system-out", "\n".join((", ".join(_facts(proof)), *said)))
    for form in found.forms:
        _case(suite, "forms", form.form, form)
    failures = sum(not proof.ok for proof in _proofs(found))
    suite.attrib |= {"tests": str(len(suite)), "failures": str(failures), "errors": "0"}
    ElementTree.indent(suite)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ElementTree.tostring(suite, encoding="unicode") + "\n"


def _case(suite: ElementTree.Element, kind: str, name: str, proof: RuleProof | FormProof) -> ElementTree.Element:
    case = ElementTree.SubElement(suite, "testcase", classname=kind, name=name)
    if proof.problems:
        failure = _child(case, "failure", "\n".join(map(str, proof.problems)))
        failure.attrib |= {"type": proof.problems[0].kind, "message": printable(proof.problems[0].message)}
    return case


def _child(parent: ElementTree.Element, tag: str, content: str) -> ElementTree.Element:
    child = ElementTree.SubElement(parent, tag)
    child.text = "\n".join(printable(line) for line in content.splitlines())
    return child
