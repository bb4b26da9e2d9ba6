"""Markdown pages of rules: one for each, one for the forms, and an index; the same rules give the same bytes."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence

from onnxfuse.report.rules.diagram import Diagram, diagram
from onnxfuse.report.rules.mermaid import flowchart
from onnxfuse.report.rules.words import (
    ALWAYS,
    forms_called,
    further_conditions,
    input_conditions,
    opsets,
    sample,
    types,
)
from onnxfuse.rulebook.rule import Rule, Rulebook

INDEX, FORMS = "README.md", "forms.md"
_NOTE = "<!-- Written by `onnxfuse rules docs` from the rule files. -->"


def pages(book: Rulebook, place: Callable[[Rule], str]) -> dict[str, str]:
    """Return all pages by file name.

    `place`: what to say of where a rule lies.
    """
    found = {INDEX: _index(book), FORMS: _forms_page(book)}
    return found | {f"{rule.name}.md": _page(rule, book, place(rule)) for rule in book.rules}


def escape(text: str) -> str:
    """Return text as Markdown that shows it as it is, on one line."""
    return re.sub(r"([\\`*_\[\]<>|~#$])", r"\\\1", " ".join(text.split()))


def _joined(blocks: Iterable[str]) -> str:
    return "\n\n".join(block.rstrip("\n") for block in blocks) + "\n"


def _index(book: Rulebook) -> str:
    rules = sorted(book.rules, key=lambda rule: rule.name)
    rows = [(f"[{rule.name}]({rule.name}.md)", escape(rule.summary), rule.safety, opsets(rule)) for rule in rules]
    return _joined([
        _NOTE,
        "# Rules",
        "Each page draws what is looked for and what takes its place, and says when. "
        f"Spellings that several rules share are [forms]({FORMS}).",
        _table(("rule", "what it does", "safety", "opsets"), rows),
    ])  # fmt: skip


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    return "\n".join(f"| {' | '.join(row)} |" for row in (head, ["---"] * len(head), *rows))


def _page(rule: Rule, book: Rulebook, place: str) -> str:
    return _joined([
        _NOTE,
        f"# {rule.name}",
        escape(rule.summary),
        _facts(rule, place),
        *_readings(rule),
        *_sides(rule, book),
        *_conditions(rule),
        *_evidence(rule),
    ])  # fmt: skip


def _facts(rule: Rule, place: str) -> str:
    rows = [
        ("opsets", opsets(rule)),
        ("types", types(rule)),
        ("safety", rule.safety),
        ("status", rule.status),
        ("order", str(rule.order)),
        ("file", f"`{place}`"),
    ]
    return _table(("", ""), rows)


def _readings(rule: Rule) -> Iterator[str]:
    if rule.why:
        yield escape(rule.why)
    if rule.source:
        yield f"Source: {escape(rule.source)}"
    if rule.exporters:
        yield "Written by:\n\n" + _bullets(map(escape, rule.exporters))


def _bullets(items: Iterable[str]) -> str:
    return "\n".join(f"- {item}" for item in items)


def _sides(rule: Rule, book: Rulebook) -> Iterator[str]:
    for text in rule.matches:
        yield "## Match" if text.name == "match" else f"## Match: {escape(text.name)}"
        yield _mermaid(diagram(text, rule))
    names = forms_called(rule.matches, book.forms)
    if names:
        links = ", ".join(f"[{name}]({FORMS}#{name.lower()})" for name in names)
        yield f"Any spelling of these forms will do: {links}."
    yield "## Rewrite"
    after = diagram(rule.rewrite, rule)
    yield _mermaid(after)
    if any(box.folded for box in after.boxes):
        yield "What is dashed is computed once, when the rule is applied."


def _mermaid(drawn: Diagram) -> str:
    return f"```mermaid\n{flowchart(drawn)}```"


def _conditions(rule: Rule) -> Iterator[str]:
    yield "## Conditions"
    yield _table(
        ("input", "what must hold"), [(f"`{n}`", escape(words)) for n, words in input_conditions(rule).items()]
    )
    yield _bullets(map(escape, (*further_conditions(rule), *ALWAYS)))


def _evidence(rule: Rule) -> Iterator[str]:
    if rule.samples:
        yield "## Verified with"
        yield _bullets(escape(sample(found, rule)) for found in rule.samples)
    if rule.rejects:
        yield "## Refused"
        yield _bullets(escape(reject.why) for reject in rule.rejects)


def _forms_page(book: Rulebook) -> str:
    blocks = [_NOTE, "# Forms", "Equal spellings of one idea; a match text that calls a form takes any of them."]
    for name in sorted(book.forms):
        blocks += [f"## {name}", *(_mermaid(diagram(text)) for text in book.forms[name])]
    return _joined(blocks)
