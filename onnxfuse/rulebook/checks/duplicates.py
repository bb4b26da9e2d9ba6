"""Match texts that are there twice, and rules that never have their turn because another takes all of theirs before."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from onnxfuse.rulebook.checks.finding import Found
from onnxfuse.rulebook.rule import Guard, Rule, Rulebook, Text

# A text without its names, and the guards of its inputs in the order in which they are first read.
_Form = tuple[object, tuple[Guard, ...]]


def duplicates(rule: Rule, book: Rulebook) -> Iterator[Found]:
    """Yield match texts that an earlier one of the same or another rule covers, and a rewrite that is one of them."""
    for index, text in enumerate(rule.matches):
        if any(_same(rule, text, rule, other) for other in rule.matches[:index]):
            yield Found(("match", index), "an earlier [[match]] of this rule is the same", "take one of them away")
        if _same(rule, text, rule, rule.rewrite):
            message = "the rewrite is the same as a match text, so the rule never ends"
            yield Found(("rewrite",), message, "let it be something that no match text fits")
    for other in _before(rule, book):
        for index, text in enumerate(rule.matches):
            if any(_covers(other, theirs, rule, text) for theirs in other.matches):
                fix = "take one of them away, let their guards differ, or give this one a lower 'order'"
                yield Found(("match", index), f"rule '{other.name}', which comes first, matches all of it", fix)


def _before(rule: Rule, book: Rulebook) -> Iterator[Rule]:
    """Yield the rules that are tried before a rule."""
    for other in book.rules:
        if other is rule:
            return
        yield other


def _same(first: Rule, text: Text, second: Rule, other: Text) -> bool:
    """Tell whether two texts have the same lines and guards, whatever their names."""
    return _are_alike(text, other) and _form(first, text) == _form(second, other)


def _are_alike(text: Text, other: Text) -> bool:
    """Tell at a glance whether two texts may have the same lines: most do not."""
    return len(text.nodes) == len(other.nodes) and text.nodes[-1].op == other.nodes[-1].op


def _form(rule: Rule, text: Text) -> _Form:
    names: dict[str, int] = {}

    def number(name: str) -> int:
        return names.setdefault(name, len(names)) if name else -1

    lines = []
    for node in sorted(text.nodes, key=lambda node: node.op != "Constant"):
        kept = rule.keep.get(node.label) == node.op
        read, given = tuple(map(number, node.inputs)), tuple(map(number, node.outputs))
        lines.append((node.op, node.domain, kept, read, given, _plain(node.attributes)))
    guards = tuple(rule.inputs[name] for name in names if name in rule.inputs)
    return tuple(lines), guards


def _plain(attributes: Mapping[str, object]) -> str:
    return repr(sorted((name, str(value)) for name, value in attributes.items()))


def _covers(first: Rule, text: Text, second: Rule, other: Text) -> bool:
    """Tell whether the first rule matches wherever the second does: the same lines, and it asks for no more."""
    if not _are_alike(text, other):
        return False
    (lines, guards), (others, other_guards) = _form(first, text), _form(second, other)
    return (
        lines == others
        and set(first.verified) >= set(second.verified)
        and all(_asks_no_more(first, a, second, b) for a, b in zip(guards, other_guards, strict=True))
        and (not first.require or repr(first.require) == repr(second.require))
        and _limits(first) == _limits(second)
    )


def _asks_no_more(first: Rule, guard: Guard, second: Rule, other: Guard) -> bool:
    return (
        (other.const or not guard.const)
        and (other.own or not guard.own)
        and (guard.optional or not other.optional)
        and guard.dims in (None, other.dims)
        and guard.onto in (None, other.onto)
        and (guard.type_name == "any" or _takes(second, other) <= _takes(first, guard))
    )


def _takes(rule: Rule, guard: Guard) -> set[object]:
    types = rule.types.get(guard.type_name)
    return {guard.type_name} if types is None else set(types)


def _limits(rule: Rule) -> str:
    """Return what [attributes] and [constants] demand."""
    keys = ("range", "among", "covers")
    demands = [(name, key, spec[key]) for name, spec in rule.attributes.items() for key in keys if key in spec]
    return repr((sorted(demands, key=repr), sorted(rule.rewrite.constants.items(), key=repr)))
