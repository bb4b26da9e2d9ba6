"""One rule on a terminal: what it does, its two sides drawn, and what must hold."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator

from onnxfuse.report.rules.diagram import diagram
from onnxfuse.report.rules.drawing import FOLDED, UNICODE, Strokes, beside, draw
from onnxfuse.report.rules.words import (
    ALWAYS,
    forms_called,
    further_conditions,
    input_conditions,
    opsets,
    sample,
    types,
)
from onnxfuse.report.wording import Style, counted, plain
from onnxfuse.rulebook.rule import Rule, Rulebook, Text

_WIDTH = 100
_INDENT = "  "


def render(
    rule: Rule, book: Rulebook, place: str, *, forms: bool = False, strokes: Strokes = UNICODE, style: Style = plain
) -> str:
    """Return a rule as lines, each ended by a newline.

    `place`: where it comes from.  `forms`: also draw every spelling of the forms that it calls.
    """
    lines = [
        f"{style(rule.name, 'strong')}  {rule.summary}",
        *_facts(rule, place),
        *_readings(rule, style),
        *_sides(rule, strokes, style),
        *_conditions(rule, style),
        *_forms(rule, book, forms, strokes, style),
        *_evidence(rule, style),
    ]
    return "".join(line.rstrip() + "\n" for line in lines)


def _facts(rule: Rule, place: str) -> Iterator[str]:
    yield f"{_INDENT}{rule.status}, {rule.safety}, order {rule.order}, {place}"
    yield from _wrapped("opsets", opsets(rule))
    yield from _wrapped("types", types(rule))


def _readings(rule: Rule, style: Style) -> Iterator[str]:
    rows = {"why": rule.why, "source": rule.source, "written by": "; ".join(rule.exporters)}
    for title, text in rows.items():
        if text:
            yield from _wrapped(title, text)


def _wrapped(title: str, text: str) -> list[str]:
    head = f"{_INDENT}{title + ' ':11}"
    return textwrap.wrap(text, _WIDTH, initial_indent=head, subsequent_indent=" " * len(head)) or [head]


def _sides(rule: Rule, strokes: Strokes, style: Style) -> Iterator[str]:
    after = draw(diagram(rule.rewrite, rule), strokes)
    before = [draw(diagram(text, rule), strokes) for text in rule.matches]
    folded = any(line.endswith(f" {FOLDED}") for line in after)
    if len(before) == 1 and max(map(len, before[0])) + max(map(len, after)) + 8 <= _WIDTH:
        yield from _section("match => rewrite", beside(before[0], after, "   =>  "), style)
    else:
        for text, lines in zip(rule.matches, before, strict=True):
            yield from _section(_title(text, "match"), lines, style)
        yield from _section("rewrite", after, style)
    if folded:
        yield f"{_INDENT * 2}{FOLDED} computed once, when the rule is applied"


def _title(text: Text, kind: str) -> str:
    return kind if text.name == kind else f"{kind}, {text.name}"


def _section(title: str, lines: list[str], style: Style) -> Iterator[str]:
    yield ""
    yield _INDENT + style(title, "strong")
    yield from (_INDENT * 2 + line for line in lines)


def _conditions(rule: Rule, style: Style) -> Iterator[str]:
    inputs = input_conditions(rule)
    width = max(map(len, inputs), default=0)
    rows = [f"{name:{width}}  {words}" for name, words in inputs.items()]
    yield from _section("conditions", [*rows, *further_conditions(rule), *ALWAYS], style)


def _forms(rule: Rule, book: Rulebook, every: bool, strokes: Strokes, style: Style) -> Iterator[str]:
    names = forms_called(rule.matches, book.forms)
    if names and not every:
        counts = [f"{name} ({counted(len(book.forms[name]), 'spelling')})" for name in names]
        yield from _section("forms", [*textwrap.wrap(", ".join(counts), _WIDTH - 4), "--forms draws them"], style)
    for name in names if every else ():
        for number, text in enumerate(book.forms[name], 1):
            yield from _section(f"form {name}, spelling {number}", draw(diagram(text), strokes), style)


def _evidence(rule: Rule, style: Style) -> Iterator[str]:
    if rule.samples:
        yield from _section("samples", [sample(found, rule) for found in rule.samples], style)
    if rule.rejects:
        yield from _section("refused", [f"- {reject.why}" for reject in rule.rejects], style)
