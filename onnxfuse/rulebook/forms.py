"""The forms that match texts call: that they exist, take what they are given, and stay small when written out."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from onnxfuse.errors import RuleError
from onnxfuse.rulebook.rule import FORM, Rule, Rulebook, Text, TextNode
from onnxfuse.rulebook.syntax.kinds import suggestion
from onnxfuse.rulebook.syntax.limits import MAX_CASES, MAX_OPERATORS, MAX_SPELLINGS, MAX_WRITTEN_OUT

# Forms that call forms; the shipped ones are three deep.
_MAX_DEPTH = 16
_HUGE = 10**9  # where counting stops


@dataclass(frozen=True)
class _Size:
    """How large a text is once its forms are written out.

    `lines` of all spellings together, `operators` of the longest one, and in how many `ways` it can be spelled.
    """

    lines: int
    operators: int
    ways: int


def apart(own: Rulebook, builtin: Mapping[str, tuple[Text, ...]]) -> Rulebook:
    """Return a user's rules with forms of their own where these have the name of a built-in form.

    Built-in rules go on to call theirs: another forms.toml must not change what they match.
    """
    names = {name: f"{name} (own)" for name in own.forms if name in builtin}
    if not names:
        return own
    forms = {names.get(name, name): _calling(texts, names) for name, texts in own.forms.items()}
    rules = tuple(replace(rule, matches=_calling(rule.matches, names)) for rule in own.rules)
    return replace(own, rules=rules, forms=forms)


def _calling(texts: tuple[Text, ...], names: Mapping[str, str]) -> tuple[Text, ...]:
    """Return texts that call forms by other names."""
    return tuple(
        replace(
            text,
            nodes=tuple(replace(n, op=names[n.op]) if n.domain == FORM and n.op in names else n for n in text.nodes),
        )
        for text in texts
    )


def forms_called(texts: Iterable[Text], book: Rulebook) -> list[str]:
    """Return the forms that texts call, and those that these call."""
    found: set[str] = set()
    left = list(texts)
    while left:
        for node in left.pop().nodes:
            if node.domain == FORM and node.op in book.forms and node.op not in found:
                found.add(node.op)
                left += book.forms[node.op]
    return sorted(found)


def check_forms(book: Rulebook) -> None:
    """Check all calls of forms, and how large the match texts are with all spellings of their forms written out.

    Raises RuleError.
    """
    sizes: dict[str, _Size] = {}
    for form in book.forms:
        _measure(form, (), book, sizes)
    for form, size in sizes.items():
        _check_size(size, f"form '{form}'")
    total = 0
    for rule in book.rules:
        measured = [_size(text, _place(rule, text), book, sizes) for text in rule.matches]
        for text, size in zip(rule.matches, measured, strict=True):
            _check_size(size, _place(rule, text))
            total += size.lines
            if total > MAX_WRITTEN_OUT:
                raise RuleError(
                    f"{_place(rule, text)}: with it the rules have more than {MAX_WRITTEN_OUT:,} lines, "
                    "their forms written out"
                )
        _check_cases(rule, sum(size.ways for size in measured))


def _place(rule: Rule, text: Text) -> str:
    return f"{rule.path}: text '{text.name}'"


def _check_size(size: _Size, place: str) -> None:
    if size.operators > MAX_OPERATORS:
        raise RuleError(f"{place} has more than {MAX_OPERATORS} operators with its forms written out: split the rule")
    if size.ways > MAX_SPELLINGS:
        raise RuleError(f"{place} can be spelled in more than {MAX_SPELLINGS:,} ways: call fewer forms")


def _check_cases(rule: Rule, ways: int) -> None:
    """Refuse a rule that nobody would wait for: each spelling runs with all types, opsets, and in part all samples."""
    types = math.prod(len(types) for types in rule.types.values())
    cases = types * len(rule.verified) * (ways + len(rule.samples) * len(rule.matches))
    if cases > MAX_CASES:
        raise RuleError(
            f"{rule.path}: {types} choices of types, {len(rule.verified)} opsets, {ways} spellings and "
            f"{len(rule.samples)} samples make more than {MAX_CASES:,} cases to verify: take some out"
        )


def _measure(form: str, above: tuple[str, ...], book: Rulebook, sizes: dict[str, _Size]) -> None:
    """Put the size of a form into `sizes`, and before it those of the forms that it calls."""
    if form in sizes or form not in book.forms:
        return
    if form in above:
        raise RuleError(f"form '{form}' calls itself: {' -> '.join((*above[above.index(form) :], form))}")
    if len(above) >= _MAX_DEPTH:
        raise RuleError(f"form '{above[0]}' calls forms that call forms, more than {_MAX_DEPTH} deep")
    for node in (node for spelling in book.forms[form] for node in spelling.nodes if node.domain == FORM):
        _measure(node.op, (*above, form), book, sizes)
    _check_signatures(form, book)
    found = [_size(spelling, f"form '{form}'", book, sizes) for spelling in book.forms[form]]
    sizes[form] = _Size(
        min(_HUGE, sum(size.lines for size in found)),
        max(size.operators for size in found),
        min(_HUGE, sum(size.ways for size in found)),
    )


def _check_signatures(form: str, book: Rulebook) -> None:
    counts = {(len(spelling.inputs), len(spelling.outputs)) for spelling in book.forms[form]}
    if len(counts) > 1:
        raise RuleError(f"the spellings of form '{form}' have different numbers of inputs or outputs")


def _size(text: Text, place: str, book: Rulebook, sizes: Mapping[str, _Size]) -> _Size:
    lines, operators, ways = 0, 0, 1
    for node in text.nodes:
        if node.domain != FORM:
            lines, operators = lines + 1, operators + (node.op != "Constant")
            continue
        if node.op not in book.forms:
            raise RuleError(f"{place} calls the unknown form '{node.op}'{suggestion(node.op, book.forms)}")
        _check_call(node, book.forms[node.op][0], place)
        inner = sizes[node.op]
        lines, operators = min(_HUGE, lines + inner.lines), min(_HUGE, operators + inner.operators)
        ways = min(_HUGE, ways * inner.ways)
    return _Size(lines, operators, ways)


def _check_call(call: TextNode, form: Text, place: str) -> None:
    given = (len(call.inputs), len(call.outputs), len(call.attributes))
    if given != (len(form.inputs), len(form.outputs), 0):
        raise RuleError(
            f"{place} calls form '{call.op}' with {given[0]} inputs, {given[1]} outputs and {given[2]} attributes; "
            f"it has {len(form.inputs)}, {len(form.outputs)} and none"
        )
