"""Rule files to a `Rulebook`: TOML read strictly, so that a slip is an error with its place and never ignored."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from onnxfuse.errors import RuleError
from onnxfuse.rulebook.checks.check import form_problems, rule_problems
from onnxfuse.rulebook.files import FORMS_FILE, check_files, rule_files
from onnxfuse.rulebook.forms import apart, check_forms
from onnxfuse.rulebook.library import builtin_rules_dir
from onnxfuse.rulebook.relevance import Operators, operators, relevant
from onnxfuse.rulebook.rule import ConstantSpec, Guard, Reject, Requirement, Rule, Rulebook, Sample, Text, TextNode
from onnxfuse.rulebook.syntax.element_types import ELEMENT_TYPES
from onnxfuse.rulebook.syntax.guards import parse_guard
from onnxfuse.rulebook.syntax.keys import FORMS, RULE, SAFETY, STATUS
from onnxfuse.rulebook.syntax.kinds import Where, suggestion
from onnxfuse.rulebook.syntax.limits import MAX_NAME
from onnxfuse.rulebook.syntax.source import Source
from onnxfuse.rulebook.syntax.text import TextError, check_graph, parse_node, parse_text

__all__ = ["ELEMENT_TYPES", "FORMS_FILE", "SAFETY", "STATUS", "load_rulebook", "suggestion"]

_NAME = re.compile(r"[A-Za-z0-9][\w.-]*", re.ASCII)


def load_rulebook(
    paths: Sequence[Path] = (), *, builtin: bool = True, present: Collection[str] | None = None
) -> Rulebook:
    """Read the built-in rules and those under `paths` (files or folders); a later rule replaces one of the same name.

    The forms of `paths` are for the rules of `paths` alone, whatever the built-in ones are called.  `present`: the
    operators of the model that they are meant for, so that built-in rules which cannot match are not read.  Raises
    RuleError with file, line and column.
    """
    shipped = rule_files(builtin_rules_dir()) if builtin else []
    files = [file for path in paths for file in rule_files(path)]
    check_files(files)
    own = _read([file for file in files if not _is_shipped_forms(file, shipped)], checked=False)
    wanted = shipped if present is None else _relevant(shipped, {*present, *_emitted(own)})
    base = _read(wanted, checked=present is not None)
    own = apart(own, base.forms)
    rules = {rule.name: rule for rule in (*base.rules, *own.rules)}
    unread = frozenset(file.stem for file in shipped if file not in wanted) - rules.keys()
    in_order = sorted(rules.values(), key=lambda rule: (rule.order, rule.name))
    book = Rulebook(tuple(in_order), {**base.forms, **own.forms}, unread, frozenset(own.forms))
    check_forms(book)
    return book


def _is_shipped_forms(file: Path, shipped: Sequence[Path]) -> bool:
    """Tell whether a file is forms.toml of the built-in rules, whose folder may be given as the user's own."""
    return file.name == FORMS_FILE and any(file.samefile(other) for other in shipped if other.name == FORMS_FILE)


def _read(files: Iterable[Path], *, checked: bool) -> Rulebook:
    """Read files; `checked`: they are known to be right, as the built-in ones are that every test run checks."""
    forms: dict[str, tuple[Text, ...]] = {}
    rules: dict[str, Rule] = {}
    for file in files:
        if file.name == FORMS_FILE:
            forms |= _read_forms(Source.read(file, checked), checked)
        else:
            rules[file.stem] = _read_rule(Source.read(file, checked), checked)
    return Rulebook(tuple(rules.values()), forms)


def _emitted(book: Rulebook) -> set[str]:
    return {node.op for rule in book.rules for node in rule.rewrite.nodes}


def builtin_operators() -> dict[str, Operators]:
    """Return the operators that each built-in rule speaks of."""
    files = [file for file in rule_files(builtin_rules_dir()) if file.name != FORMS_FILE]
    return {file.stem: operators(file.read_text(encoding="utf-8")) for file in files}


def _relevant(shipped: Sequence[Path], present: Collection[str]) -> list[Path]:
    """Return the shipped files that can match in a model with these operators."""
    chosen = relevant(builtin_operators(), present)
    return [file for file in shipped if file.stem in chosen or file.name == FORMS_FILE]


def _read_rule(source: Source, checked: bool) -> Rule:
    if checked:
        return _rule(source)
    if not _NAME.fullmatch(source.path.stem) or len(source.path.stem) > MAX_NAME:
        raise RuleError(f"{source.path}: a rule is called like its file: use letters, digits and '-', up to {MAX_NAME}")
    source.check(RULE)
    for index, table in enumerate(source.data.get("reject", [])):
        _check_reject(source, index, table["text"])
    rule = _rule(source)
    for problem in rule_problems(rule):
        raise source.error(problem.message, problem.where)
    return rule


def _rule(source: Source) -> Rule:
    data = source.data
    opset = data["opset"]
    types = _types(data.get("types", ["float"]))
    return Rule(
        name=source.path.stem,
        path=source.path,
        summary=data["summary"],
        verified=tuple(sorted({opset, *data.get("also", [])})),
        types=types,
        safety=_get(data, "safety"),
        status=_get(data, "status"),
        order=_get(data, "order"),
        keep=data.get("keep", {}),
        inputs=_guards(source, types),
        absent=_absent(source),
        attributes=data.get("attributes", {}),
        derive=data.get("derive", {}),
        draw={name: (low, high) for name, (low, high) in data.get("draw", {}).items()},
        matches=tuple(_match(source, index, opset) for index in range(len(data["match"]))),
        rewrite=_parse(source, ("rewrite", "text"), "rewrite", opset, data.get("constants", {})),
        samples=tuple(map(_sample, data.get("sample", []))),
        rejects=tuple(Reject(table["why"], table["text"]) for table in data.get("reject", [])),
        why=data.get("why", ""),
        source=data.get("source", ""),
        exporters=tuple(data.get("exporters", ())),
        require=tuple(_requirement(source, index, opset) for index in range(len(data.get("require", [])))),
    )


def _get(data: Mapping[str, Any], key: str) -> Any:
    return data.get(key, RULE.keys[key].default)


def _types(value: Any) -> dict[str, tuple[int, ...]]:
    """Return the type variables: `types = [...]` is short for `types = { T = [...] }`."""
    table = value if isinstance(value, dict) else {"T": value}
    return {variable: tuple(ELEMENT_TYPES[name] for name in names) for variable, names in table.items()}


def _guards(source: Source, types: Mapping[str, Any]) -> dict[str, Guard]:
    guards = {}
    for name, text in source.data["inputs"].items():
        try:
            guards[name] = parse_guard(text, {*types, *ELEMENT_TYPES, "any"})
        except ValueError as error:
            raise source.error(f"guard of input '{name}': {error}", ("inputs", name)) from error
    return guards


def _absent(source: Source) -> dict[str, TextNode | None]:
    nodes: dict[str, TextNode | None] = {}
    for name, text in source.data.get("absent", {}).items():
        try:
            nodes[name] = parse_node(f"{name} = {text}") if text else None
        except TextError as error:
            reason = f"what stands for an absent '{name}': {error.reason}"
            raise source.error(reason, ("absent", name)) from error
    return nodes


def _match(source: Source, index: int, opset: int) -> Text:
    table = source.data["match"][index]
    name, opset = table.get("name", "match"), table.get("opset", opset)
    return _parse(source, ("match", index, "text"), name, opset, source.data.get("constants", {}))


def _requirement(source: Source, index: int, opset: int) -> Requirement:
    why = source.data["require"][index]["why"]
    return Requirement(why, _parse(source, ("require", index, "text"), "require", opset, {}))


def _sample(table: Mapping[str, Any]) -> Sample:
    shapes = {name: tuple(dims if isinstance(dims, list) else [dims]) for name, dims in table.get("shapes", {}).items()}
    return Sample(shapes, table.get("attributes", {}), tuple(table.get("absent", ())))


def _check_reject(source: Source, index: int, text: str) -> None:
    try:
        check_graph(text)
    except TextError as error:
        raise source.text_error(text, error, ("reject", index, "text")) from error


def _parse(source: Source, where: Where, name: str, opset: int, constants: Mapping[str, Any]) -> Text:
    text: Any = source.data
    for part in where:
        text = text[part]
    specs = {constant: ConstantSpec(**table) for constant, table in constants.items()}
    try:
        return replace(parse_text(text, name, opset), constants=specs)
    except TextError as error:
        raise source.text_error(text, error, where) from error


def _read_forms(source: Source, checked: bool) -> dict[str, tuple[Text, ...]]:
    if not checked:
        source.check(FORMS)
    tables = source.data["form"]
    return {name: tuple(_spelling(source, name, index) for index in range(len(tables[name]))) for name in tables}


def _spelling(source: Source, form: str, index: int) -> Text:
    where: Where = ("form", form, index)
    table = source.data["form"][form][index]
    text = _parse(source, (*where, "text"), form, table.get("opset", 18), table.get("constants", {}))
    for problem in form_problems(text):
        raise source.error(f"form '{form}': {problem}", where)
    return text
