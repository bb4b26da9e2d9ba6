"""Rule files to a `Rulebook`: TOML read strictly, so that a slip is an error with its place and never ignored."""

from __future__ import annotations

import difflib
import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from onnx import TensorProto

from onnxfuse.errors import RuleError
from onnxfuse.rulebook.guards import parse_guard
from onnxfuse.rulebook.library import builtin_rules_dir
from onnxfuse.rulebook.rule import FORM, ConstantSpec, Guard, Reject, Rule, Rulebook, Sample, Text, TextNode
from onnxfuse.rulebook.text import TextError, parse_node, parse_text

FORMS_FILE = "forms.toml"
SAFETY = ("exact", "rounding", "unsafe")
STATUS = ("preview", "stable", "deprecated")

_KEYS = {
    "rule": {
        "summary", "opset", "also", "types", "safety", "status", "order", "keep", "inputs", "absent", "attributes",
        "constants", "derive", "draw", "match", "rewrite", "sample", "reject",
    },
    "[[match]]": {"name", "opset", "text"},
    "[rewrite]": {"text"},
    "[[sample]]": {"shapes", "attributes", "absent"},
    "[[reject]]": {"why", "text"},
    "[attributes]": {"type", "default", "range", "covers", "among"},
    "[constants]": {"rtol", "value"},
    "[[form]]": {"text", "opset", "constants"},
}  # fmt: skip

# The element types by the names that ONNX text uses: "float", "float16", "int64" ...
ELEMENT_TYPES: Mapping[str, int] = {
    name.lower(): int(number) for name, number in TensorProto.DataType.items() if number
}


def load_rulebook(paths: Sequence[Path] = (), *, builtin: bool = True) -> Rulebook:
    """Read the built-in rules and those under `paths` (files or folders); a later rule replaces one of the same name.

    Raises RuleError with file, line and column.
    """
    files = [file for path in (*([builtin_rules_dir()] if builtin else []), *paths) for file in _rule_files(path)]
    forms: dict[str, tuple[Text, ...]] = {}
    rules: dict[str, Rule] = {}
    for file in files:
        if file.name == FORMS_FILE:
            forms |= _read_forms(_Source.read(file))
        else:
            rules[file.stem] = _read_rule(_Source.read(file))
    book = Rulebook(tuple(sorted(rules.values(), key=lambda rule: (rule.order, rule.name))), forms)
    _check_forms(book)
    return book


def _rule_files(path: Path) -> list[Path]:
    if path.is_dir():
        return sorted(path.rglob("*.toml"))
    if not path.exists():
        raise RuleError(f"{path}: there is no such rule file or folder")
    return [path]


@dataclass(frozen=True)
class _Source:
    """A rule file: its text, to find the place of an error, and its content."""

    path: Path
    text: str
    data: dict[str, Any]

    @classmethod
    def read(cls, path: Path) -> _Source:
        try:
            text = path.read_text(encoding="utf-8")
            return cls(path, text, tomllib.loads(text))
        except tomllib.TOMLDecodeError as error:
            found = re.search(r" \(at line (\d+), column (\d+)\)$", str(error))
            place = f"{found[1]}:{found[2]}" if found else "1:1"
            raise RuleError(f"{path}:{place}: not TOML: {re.sub(r' .at .*', '', str(error))}") from error
        except (OSError, UnicodeDecodeError) as error:
            raise RuleError(f"{path}: cannot be read as a rule file: {error}") from error

    def error(self, reason: str, at: str = "") -> RuleError:
        """Return an error that names the first place where `at` stands in the file."""
        position = max(0, self.text.find(at)) if at else 0
        before = self.text[:position]
        return RuleError(f"{self.path}:{before.count(chr(10)) + 1}:{position - before.rfind(chr(10))}: {reason}")

    def text_error(self, text: str, error: TextError) -> RuleError:
        """Return an error at a place inside a text of the file."""
        position = self.text.find(text)
        before = self.text[: max(0, position)]
        line = before.count("\n") + error.line
        column = error.column + (position - before.rfind("\n") - 1 if error.line == 1 and position >= 0 else 0)
        return RuleError(f"{self.path}:{line}:{column}: {error.reason}")

    def check_keys(self, table: Mapping[str, Any], kind: str) -> None:
        for key in table:
            if key not in _KEYS[kind]:
                raise self.error(f"unknown key '{key}' in {kind}{suggestion(key, _KEYS[kind])}", key)

    def parse(self, text: str, name: str, opset: int, constants: Mapping[str, Mapping[str, float]]) -> Text:
        for table in constants.values():
            self.check_keys(table, "[constants]")
        specs = {constant: ConstantSpec(**table) for constant, table in constants.items()}
        try:
            return replace(parse_text(text, name, opset), constants=specs)
        except TextError as error:
            raise self.text_error(text, error) from error

    def get(self, key: str, kind: type, default: Any = None) -> Any:
        """Return a top-level key after checking its type; without a default it is required."""
        if key not in self.data:
            if default is None:
                raise self.error(f"the key '{key}' is missing")
            return default
        value = self.data[key]
        if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
            raise self.error(f"'{key}' must be {_KIND_NAMES[kind]}", key)
        return value


_KIND_NAMES = {str: "a string", int: "a whole number", list: "a list", dict: "a table"}


def suggestion(name: str, known: Iterable[str]) -> str:
    """Return `; did you mean 'x'?` for the known name nearest to a wrong one, or an empty string."""
    near = difflib.get_close_matches(name, list(known), n=1, cutoff=0.6)
    return f"; did you mean '{near[0]}'?" if near else ""


def _read_rule(source: _Source) -> Rule:
    source.check_keys(source.data, "rule")
    opset = source.get("opset", int)
    types = _types(source)
    matches = tuple(_match(source, table, opset) for table in source.get("match", list))
    rewrite_table = source.get("rewrite", dict)
    source.check_keys(rewrite_table, "[rewrite]")
    rule = Rule(
        name=source.path.stem,
        path=source.path,
        summary=source.get("summary", str),
        verified=tuple(sorted({opset, *source.get("also", list, [])})),
        types=types,
        safety=_choice(source, "safety", SAFETY, "rounding"),
        status=_choice(source, "status", STATUS, "stable"),
        order=source.get("order", int, 50),
        keep=source.get("keep", dict, {}),
        inputs=_guards(source, types),
        absent=_absent(source),
        attributes=_tables(source, "attributes"),
        derive=source.get("derive", dict, {}),
        draw={k: (v[0], v[1]) for k, v in source.get("draw", dict, {}).items()},
        matches=matches,
        rewrite=source.parse(
            _required(source, rewrite_table, "text", "[rewrite]"), "rewrite", opset, source.get("constants", dict, {})
        ),
        samples=tuple(_sample(source, table) for table in source.get("sample", list, [])),
        rejects=tuple(_reject(source, table) for table in source.get("reject", list, [])),
    )
    _check_rule(source, rule)
    return rule


def _types(source: _Source) -> dict[str, tuple[int, ...]]:
    """Return the type variables: `types = [...]` is short for `types = { T = [...] }`."""
    table = source.data.get("types", ["float"])
    table = table if isinstance(table, dict) else {"T": table}
    for names in table.values():
        for name in names:
            if name not in ELEMENT_TYPES:
                raise source.error(f"'{name}' is no ONNX element type{suggestion(name, ELEMENT_TYPES)}", name)
    return {variable: tuple(ELEMENT_TYPES[name] for name in names) for variable, names in table.items()}


def _guards(source: _Source, types: Mapping[str, Any]) -> dict[str, Guard]:
    guards = {}
    for name, text in source.get("inputs", dict).items():
        try:
            guards[name] = parse_guard(text, {*types, *ELEMENT_TYPES, "any"})
        except (ValueError, AttributeError) as error:
            raise source.error(f"guard of input '{name}': {error}", str(text)) from error
    return guards


def _absent(source: _Source) -> dict[str, TextNode]:
    nodes = {}
    for name, text in source.get("absent", dict, {}).items():
        try:
            nodes[name] = parse_node(f"{name} = {text}")
        except TextError as error:
            raise source.error(f"what stands for an absent '{name}': {error.reason}", text) from error
    return nodes


def _match(source: _Source, table: Mapping[str, Any], opset: int) -> Text:
    source.check_keys(table, "[[match]]")
    text = _required(source, table, "text", "[[match]]")
    return source.parse(text, table.get("name", "match"), table.get("opset", opset), source.get("constants", dict, {}))


def _sample(source: _Source, table: Mapping[str, Any]) -> Sample:
    source.check_keys(table, "[[sample]]")
    shapes = {name: tuple(dims if isinstance(dims, list) else [dims]) for name, dims in table.get("shapes", {}).items()}
    return Sample(shapes, table.get("attributes", {}), tuple(table.get("absent", ())))


def _reject(source: _Source, table: Mapping[str, Any]) -> Reject:
    source.check_keys(table, "[[reject]]")
    return Reject(_required(source, table, "why", "[[reject]]"), _required(source, table, "text", "[[reject]]"))


def _tables(source: _Source, key: str) -> dict[str, dict[str, Any]]:
    tables = source.get(key, dict, {})
    for table in tables.values():
        source.check_keys(table, f"[{key}]")
    return dict(tables)


def _required(source: _Source, table: Mapping[str, Any], key: str, kind: str) -> str:
    if not isinstance(table.get(key), str):
        raise source.error(f"{kind} needs a string '{key}'", kind)
    return str(table[key])


def _choice(source: _Source, key: str, choices: Sequence[str], default: str) -> str:
    value = str(source.get(key, str, default))
    if value not in choices:
        raise source.error(f"'{key}' is one of {', '.join(choices)}, not '{value}'", value)
    return value


def _check_rule(source: _Source, rule: Rule) -> None:
    """Check what the texts, guards and labels say of each other."""
    for text in (*rule.matches, rule.rewrite):
        if set(text.inputs) != set(rule.inputs):
            raise source.error(f"text '{text.name}' has inputs {list(text.inputs)}, [inputs] has {list(rule.inputs)}")
        if text.outputs != rule.rewrite.outputs:
            raise source.error(
                f"text '{text.name}' gives {list(text.outputs)}, the rewrite {list(rule.rewrite.outputs)}"
            )
        labels = {node.label: node.op for node in text.nodes}
        for label, op in rule.keep.items():
            if labels.get(label) != op:
                raise source.error(f"keep names '{label}', but text '{text.name}' has no {op} labelled so", label)
    for name, guard in rule.inputs.items():
        if guard.optional and any(name in n.inputs for n in rule.rewrite.nodes) and name not in rule.absent:
            raise source.error(f"input '{name}' may be absent: say in [absent] what it stands for then", name)


def _read_forms(source: _Source) -> dict[str, tuple[Text, ...]]:
    forms = {}
    for name, tables in source.get("form", dict).items():
        for table in tables:
            source.check_keys(table, "[[form]]")
        forms[name] = tuple(
            source.parse(
                _required(source, table, "text", "[[form]]"), name, table.get("opset", 18), table.get("constants", {})
            )
            for table in tables
        )
    return forms


def _check_forms(book: Rulebook) -> None:
    texts = [(rule.path, text) for rule in book.rules for text in rule.matches]
    for path, text in texts:
        for node in text.nodes:
            if node.domain == FORM and node.op not in book.forms:
                raise RuleError(
                    f"{path}: text '{text.name}' calls the unknown form '{node.op}'{suggestion(node.op, book.forms)}"
                )
