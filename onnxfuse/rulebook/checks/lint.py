"""What the text of a rule shows to be wrong or untested although it can be read, each with its place and a fix."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from onnx import defs

from onnxfuse.model import schema
from onnxfuse.model.attributes import same
from onnxfuse.rulebook.checks.attributes import attributes, literals
from onnxfuse.rulebook.checks.duplicates import duplicates
from onnxfuse.rulebook.checks.finding import Finding, Found, texts
from onnxfuse.rulebook.checks.operators import line_problems
from onnxfuse.rulebook.fold import computed_from
from onnxfuse.rulebook.library import builtin_rules_dir
from onnxfuse.rulebook.rule import FORM, Bound, Guard, Rule, Rulebook, Text, TextNode
from onnxfuse.rulebook.syntax.source import Source

_KEBAB: Final = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")


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


def _names(rule: Rule, book: Rulebook) -> Iterator[Found]:
    if not _KEBAB.fullmatch(rule.name):
        yield Found((), f"the file name '{rule.name}' is not in kebab case", "call it like 'conv-batchnorm'")
    shipped = rule.path.is_relative_to(builtin_rules_dir())
    if shipped and not _KEBAB.fullmatch(rule.path.parent.name):
        yield Found((), f"its folder '{rule.path.parent.name}' is no family of operators", "move it, as to 'conv'")
    if not rule.summary.endswith(".") or "\n" in rule.summary:
        yield Found(("summary",), "the summary is not one sentence", "write one line that ends with a full stop")


def _operators(rule: Rule, book: Rulebook) -> Iterator[Found]:
    """Yield what the schemas say of the texts' operators and attributes."""
    for text, where in texts(rule):
        for node in text.nodes:
            for message, fix in line_problems(node, text.opset):
                yield Found(where, f"text '{text.name}': {message}", fix)
            allowed = ("Dropout",) if where[0] == "match" else ()
            if not node.domain and node.op in schema.IMPURE and node.op not in allowed:
                yield Found(where, f"{node.op} gives another value each time", "leave it out: no two runs agree")
        labels = [node.label for node in text.nodes if node.label]
        for label in {label for label in labels if labels.count(label) > 1}:
            yield Found(where, f"text '{text.name}': two lines are labelled '{label}'", "give each its own label")


def _opsets(rule: Rule, book: Rulebook) -> Iterator[Found]:
    """Yield opsets that onnx does not know, and those at which no match text can be written."""
    newest = defs.onnx_opset_version()
    for opset in (opset for opset in rule.verified if opset > newest):
        yield Found(("also",), f"onnx knows no opset {opset}, its newest is {newest}", f"take {opset} out")
    known = [text for text in rule.matches if _exists(text, text.opset, book, frozenset())]
    for opset in (opset for opset in rule.verified if known and opset <= newest):
        if not any(_exists(text, opset, book, frozenset()) for text in known):
            message = f"no match text has all its operators and attributes at opset {opset}"
            yield Found(("also",), message, f"take {opset} out")


def _exists(text: Text, opset: int, book: Rulebook, above: frozenset[str]) -> bool:
    """Tell whether all operators of a text, or of a spelling of each form it calls, exist at an opset."""
    for node in text.nodes:
        if node.domain == FORM:
            if node.op in above or not any(
                _exists(spelling, opset, book, above | {node.op}) for spelling in book.forms[node.op]
            ):
                return False
        elif node.op != "Constant" and not _writable(node, text.opset, opset):
            return False
    return True


def _writable(node: TextNode, written: int, opset: int) -> bool:
    """Tell whether an operator exists at an opset with what a line demands of it, written at another opset."""
    found = schema.schema(node.op, opset, node.domain)
    if found is None or found.deprecated:
        return False
    defaults = schema.defaults(node.op, written, node.domain)
    moved = {name for name, _ in schema.MOVED.get(node.op, {}).values()}
    for name in node.attributes.keys() - found.attributes.keys() - moved:
        value, default = node.attributes[name], defaults.get(name)
        if not isinstance(value, Bound) and (default is None or not same(value, default)):
            return False
    return True


def _reads(rule: Rule, book: Rulebook) -> Iterator[Found]:
    """Yield inputs and lines that nothing comes of: a match is looked for without them."""
    for text, where in texts(rule):
        read = {name for node in text.nodes for name in node.inputs}
        for name in rule.inputs:
            if name not in read and where[0] == "match":
                yield Found(where, f"text '{text.name}' does not read its input '{name}'", "read it, or leave it out")
        read.update(text.outputs, rule.derive.values() if where[0] == "rewrite" else ())
        for node in text.nodes:
            if read.isdisjoint(node.outputs):
                message = f"text '{text.name}': nobody reads '{node.outputs[0]}', which {node.op} gives"
                yield Found(where, message, "read it, make it an output, or leave the line out")


def _samples(rule: Rule, book: Rulebook) -> Iterator[Found]:
    if len(rule.samples) < 2:
        yield Found(("sample",), "there are fewer than two samples", "add a [[sample]]")
        return
    ranks = {tuple(map(len, sample.shapes.values())) for sample in rule.samples}
    if len(ranks) < 2 and any(map(_is_free, rule.inputs.values())) and not _fixes_rank(rule):
        yield Found(("sample", 1), "all samples have the same ranks", "add a [[sample]] of another rank")
    for label in rule.keep:
        if _leaves_free(rule, label) and not any(label in sample.attributes for sample in rule.samples):
            fix = f"give it some in a [[sample]]: attributes = {{ {label}.NAME = ... }}"
            yield Found(("keep",), f"no sample gives attributes to the node kept as '{label}'", fix)


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


def _rejects(rule: Rule, book: Rulebook) -> Iterator[Found]:
    if not rule.rejects:
        yield Found((), "there is no [[reject]]", "add a graph that must not match, and say why")
    whys = [reject.why for reject in rule.rejects]
    for index, why in enumerate(whys):
        if why in whys[:index]:
            yield Found(("reject", index), f"two rejects say '{why}'", "let each break another guard")


def _size(rule: Rule, book: Rulebook) -> Iterator[Found]:
    """Yield that a rewrite has more nodes than what it replaces, those apart that are computed beforehand."""
    constant = {name for name, guard in rule.inputs.items() if guard.const}
    after = _counted(rule.rewrite.nodes, constant)
    for text in rule.matches:
        before = _fewest(text, book, constant, frozenset())
        if after > before:
            message = f"text '{text.name}' can stand for {before} nodes, the rewrite has {after}"
            yield Found(("rewrite",), message, "a rewrite that grows the graph is no optimization")


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


_CHECKS: Final[tuple[Callable[[Rule, Rulebook], Iterator[Found]], ...]] = (
    _names, _operators, _opsets, _reads, attributes, literals, _samples, _rejects, _size, duplicates,
)  # fmt: skip
