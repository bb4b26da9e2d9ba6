"""What the text of a rule shows to be wrong or untested although it can be read, each with its place and a fix."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from onnxfuse.model import schema
from onnxfuse.rulebook.checks.operators import line_problems
from onnxfuse.rulebook.fold import computed_from
from onnxfuse.rulebook.rule import FORM, Bound, Guard, Rule, Rulebook, Text, TextNode
from onnxfuse.rulebook.syntax.kinds import Where
from onnxfuse.rulebook.syntax.source import Source

_KEBAB: Final = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")


@dataclass(frozen=True)
class Finding:
    """Something that a rule file should not have, and how to mend it."""

    rule: str
    path: Path
    line: int
    column: int
    message: str
    fix: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}:{self.column}: {self.message}; {self.fix}"


@dataclass(frozen=True)
class _Found:
    """A problem and what to do about it."""

    where: Where
    message: str
    fix: str


def lint(book: Rulebook, names: Sequence[str] | None = None) -> tuple[Finding, ...]:
    """Return the findings on the rules of a book called `names` (None: on all), in the order of the rules.

    Raises RuleError if a rule's file cannot be read any more.
    """
    return tuple(
        finding for rule in book.rules if names is None or rule.name in names for finding in _rule_findings(rule, book)
    )


def _rule_findings(rule: Rule, book: Rulebook) -> Iterator[Finding]:
    found = [problem for check in _CHECKS for problem in check(rule, book)]
    source = Source.read(rule.path) if found else None
    for problem in found:
        line, column = source.line_and_column(problem.where) if source is not None else (1, 1)
        yield Finding(rule.name, rule.path, line, column, problem.message, problem.fix)


def _names(rule: Rule, book: Rulebook) -> Iterator[_Found]:
    if not _KEBAB.fullmatch(rule.name):
        yield _Found((), f"the file name '{rule.name}' is not in kebab case", "call it like 'conv-batchnorm'")
    if not _KEBAB.fullmatch(rule.path.resolve().parent.name.lower()):
        yield _Found((), f"its folder '{rule.path.parent.name}' is no family of operators", "move it, as to 'conv'")
    if not rule.summary.endswith(".") or "\n" in rule.summary:
        yield _Found(("summary",), "the summary is not one sentence", "write one line that ends with a full stop")


def _operators(rule: Rule, book: Rulebook) -> Iterator[_Found]:
    """Yield what the schemas say of the texts' operators and attributes."""
    for text, where in _texts(rule):
        for node in text.nodes:
            for message, fix in line_problems(node, text.opset):
                yield _Found(where, f"text '{text.name}': {message}", fix)
            allowed = ("Dropout",) if where[0] == "match" else ()
            if not node.domain and node.op in schema.IMPURE and node.op not in allowed:
                yield _Found(where, f"{node.op} gives another value each time", "leave it out: no two runs agree")
        labels = [node.label for node in text.nodes if node.label]
        for label in {label for label in labels if labels.count(label) > 1}:
            yield _Found(where, f"text '{text.name}': two lines are labelled '{label}'", "give each its own label")


def _texts(rule: Rule) -> Iterator[tuple[Text, Where]]:
    for index, text in enumerate(rule.matches):
        yield text, ("match", index, "text")
    yield rule.rewrite, ("rewrite", "text")


def _opsets(rule: Rule, book: Rulebook) -> Iterator[_Found]:
    """Yield opsets that no match text can stand at, and a rewrite that fits none."""
    for opset in rule.verified:
        if not any(_exists(text, opset, book, frozenset()) for text in rule.matches):
            yield _Found(("also",), f"no match text has all its operators at opset {opset}", f"take {opset} out")
    if not any(_exists(rule.rewrite, opset, book, frozenset()) for opset in rule.verified):
        yield _Found(("rewrite",), "the rewrite has all its operators at no verified opset", "add one to 'also'")


def _exists(text: Text, opset: int, book: Rulebook, above: frozenset[str]) -> bool:
    """Tell whether all operators of a text, or of a spelling of each form it calls, exist at an opset."""
    for node in text.nodes:
        if node.domain == FORM:
            if node.op in above or not any(
                _exists(spelling, opset, book, above | {node.op}) for spelling in book.forms[node.op]
            ):
                return False
        elif node.op != "Constant" and not schema.since(node.op, opset, node.domain):
            return False
    return True


def _inputs(rule: Rule, book: Rulebook) -> Iterator[_Found]:
    for text, where in list(_texts(rule))[:-1]:
        read = {name for node in text.nodes for name in node.inputs}
        for name in rule.inputs:
            if name not in read:
                yield _Found(where, f"text '{text.name}' does not read its input '{name}'", "read it, or leave it out")


def _attributes(rule: Rule, book: Rulebook) -> Iterator[_Found]:
    """Yield attributes that are not declared, or whose loss in the rewrite no sample would show."""
    named = {
        str(dim).rstrip(".") for guard in rule.inputs.values() for dim in (*(guard.dims or ()), *(guard.onto or ()))
    }
    for text, where in _texts(rule):
        for name in sorted(_bound(text) - set(rule.attributes) - named - set(rule.derive)):
            yield _Found(where, f"'@{name}' is not declared", f"add {name} = {{ type = ... }} to [attributes]")
    matched = set().union(*(_bound(text) for text in rule.matches))
    for name in sorted(matched & set(rule.attributes)):
        spec = rule.attributes[name]
        given = [sample.attributes[name] for sample in rule.samples if name in sample.attributes]
        if not any(value != spec.get("default") for value in given) and "among" not in spec:
            fix = "give it one in a [[sample]], large enough to be seen"
            yield _Found(("attributes", name), f"no sample gives '{name}' another value than its default", fix)


def _bound(text: Text) -> set[str]:
    return {value.name for node in text.nodes for value in node.attributes.values() if isinstance(value, Bound)}


def _samples(rule: Rule, book: Rulebook) -> Iterator[_Found]:
    if len(rule.samples) < 2:
        yield _Found(("sample",), "there are fewer than two samples", "add a [[sample]]")
        return
    ranks = {tuple(map(len, sample.shapes.values())) for sample in rule.samples}
    if len(ranks) < 2 and any(map(_is_free, rule.inputs.values())) and not _fixes_rank(rule):
        yield _Found(("sample", 1), "all samples have the same ranks", "add a [[sample]] of another rank")
    for label in rule.keep:
        if _leaves_free(rule, label) and not any(label in sample.attributes for sample in rule.samples):
            fix = f"give it some in a [[sample]]: attributes = {{ {label}.NAME = ... }}"
            yield _Found(("keep",), f"no sample gives attributes to the node kept as '{label}'", fix)


def _leaves_free(rule: Rule, label: str) -> bool:
    """Tell whether a kept node can have attributes that a text does not mention."""
    lines = [(node, text.opset) for text in rule.matches for node in text.nodes if node.label == label]
    return any(set(schema.defaults(node.op, opset, node.domain)) - set(node.attributes) for node, opset in lines)


def _is_free(guard: Guard) -> bool:
    """Tell whether a guard allows several ranks."""
    return guard.dims is None or any(str(dim).endswith("...") for dim in guard.dims)


def _fixes_rank(rule: Rule) -> bool:
    """Tell whether a text names every dim, as a permutation does."""
    lines = [node for text in rule.matches for node in text.nodes]
    return any(isinstance(node.attributes.get("perm"), tuple) for node in lines)


def _rejects(rule: Rule, book: Rulebook) -> Iterator[_Found]:
    if not rule.rejects:
        yield _Found((), "there is no [[reject]]", "add a graph that must not match, and say why")
    whys = [reject.why for reject in rule.rejects]
    for index, why in enumerate(whys):
        if why in whys[:index]:
            yield _Found(("reject", index), f"two rejects say '{why}'", "let each break another guard")


def _size(rule: Rule, book: Rulebook) -> Iterator[_Found]:
    """Yield that a rewrite has more nodes than what it replaces, those apart that are computed beforehand."""
    constant = {name for name, guard in rule.inputs.items() if guard.const}
    after = _counted(rule.rewrite.nodes, constant)
    for text in rule.matches:
        before = _fewest(text, book, constant, frozenset())
        if after > before:
            message = f"text '{text.name}' can stand for {before} nodes, the rewrite has {after}"
            yield _Found(("rewrite",), message, "a rewrite that grows the graph is no optimization")


def _counted(nodes: Sequence[TextNode], constant: set[str]) -> int:
    folded = computed_from(nodes, constant)
    return sum(1 for node in nodes if not folded.issuperset(node.outputs))


def _fewest(text: Text, book: Rulebook, constant: set[str], above: frozenset[str]) -> int:
    """Return the number of nodes of a text in its shortest spelling; those of constants count, for they are there."""
    total = 0
    for node in text.nodes:
        if node.domain == FORM and node.op not in above:
            total += min(_fewest(spelling, book, constant, above | {node.op}) for spelling in book.forms[node.op])
        elif node.op != "Constant":
            total += 1
    return total


def _duplicates(rule: Rule, book: Rulebook) -> Iterator[_Found]:
    for other in book.rules:
        if other is rule:
            return
        for index, text in enumerate(rule.matches):
            for theirs in other.matches:
                if _canonical(rule, text) == _canonical(other, theirs):
                    fix = "take one of them away, or let their guards differ"
                    yield _Found(("match", index), f"rule '{other.name}' matches the same", fix)


def _canonical(rule: Rule, text: Text) -> object:
    """Return a match text with its guards and without its names: equal for texts that match the same graphs."""
    names: dict[str, int] = {}

    def number(name: str) -> int:
        return names.setdefault(name, len(names)) if name else -1

    lines = []
    for node in sorted(text.nodes, key=lambda node: node.op != "Constant"):
        kept = rule.keep.get(node.label) == node.op
        read, given = tuple(map(number, node.inputs)), tuple(map(number, node.outputs))
        lines.append((node.op, node.domain, kept, read, given, _plain(node.attributes)))
    guards = tuple(sorted((number(name), repr(guard)) for name, guard in rule.inputs.items()))
    return tuple(lines), guards, repr(sorted(rule.types.items())), repr(rule.require), rule.verified


def _plain(attributes: Mapping[str, object]) -> str:
    return repr(sorted((name, str(value)) for name, value in attributes.items()))


_CHECKS: Final[tuple[Callable[[Rule, Rulebook], Iterator[_Found]], ...]] = (
    _names, _operators, _opsets, _inputs, _attributes, _samples, _rejects, _size, _duplicates,
)  # fmt: skip
