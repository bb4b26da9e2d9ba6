"""One table of keys: the loader, the JSON Schema and rules/README.md agree on it."""

from __future__ import annotations

import copy
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from onnxfuse.errors import RuleError
from onnxfuse.rulebook.load import load_rulebook
from onnxfuse.rulebook.syntax.keys import FORMS, RULE
from onnxfuse.rulebook.syntax.kinds import ListOf, MapOf, Record
from onnxfuse.rulebook.syntax.schema import forms_schema, rule_schema

_RULES = Path(__file__).parents[2] / "rules"
_FILES = sorted(path for path in _RULES.rglob("*.toml") if path.name != "forms.toml")
_VALIDATOR = jsonschema.Draft202012Validator(rule_schema())


def _data(path: Path) -> dict[str, Any]:
    return tomllib.loads(path.read_text(encoding="utf-8"))


def test_the_schemas_are_schemas() -> None:
    for schema in (rule_schema(), forms_schema()):
        jsonschema.Draft202012Validator.check_schema(schema)


@pytest.mark.parametrize("path", _FILES, ids=lambda path: path.stem)
def test_shipped_rules_keep_the_schema(path: Path) -> None:
    _VALIDATOR.validate(_data(path))


def test_shipped_forms_keep_the_schema() -> None:
    jsonschema.Draft202012Validator(forms_schema()).validate(_data(_RULES / "forms.toml"))


_DAMAGE: list[tuple[str, Any, str]] = [
    ("also", "x", r"'also' must be a list of opsets, not the string 'x'; for example: also = \[7, 13, 17\]"),
    ("also", [7, "9"], r"'also' must be an opset, not the string '9'"),
    ("also", [True], "'also' must be an opset, not true or false"),
    ("opset", 0, "'opset' must be an opset from 1 to 999"),
    ("opset", 13.5, "'opset' must be an opset, not 13.5"),
    ("types", ["flaot"], "'flaot' is no ONNX element type; did you mean 'float'?"),
    ("types", [], "'types' must be a list of element types: 1 to 32 of them, not 0"),
    ("types", 3, "'types' must be a list, or a table of lists, not 3"),
    ("safety", "exakt", "'safety' is one of exact, rounding, unsafe, not 'exakt'; did you mean 'exact'?"),
    ("order", -1, "'order' must be a whole number from 0 to 1000"),
    ("summary", "", "'summary' must be a sentence of 1 to 300 characters"),
    ("summary", ["a"], "'summary' must be a sentence, not a list"),
    ("exporters", "PyTorch", "'exporters' must be a list of sentences, not the string 'PyTorch'"),
    ("keep", ["conv"], "'keep' must be a table, not a list"),
    ("inputs", {"x": 3}, "'inputs.x' must be a guard, not 3"),
    ("absent", {"b": {}}, "'absent.b' must be a sentence, not a table"),
    ("attributes", {"epsilon": "float"}, "'attributes.epsilon' must be a table, not the string 'float'"),
    ("attributes", {"epsilon": {"typ": "float"}}, r"unknown key 'typ' in \[attributes\]; did you mean 'type'?"),
    ("constants", {"k": {"rtol": "small"}}, "'constants.k.rtol' must be a number, not the string 'small'"),
    ("draw", {"var": [1]}, "'var' must be a list of two numbers: 2 of them, not 1"),
    ("match", [], "'match' must be an array of tables: 1 to 64 of them, not 0"),
    ("match", {"text": ""}, "'match' must be an array of tables, not a table"),
    ("match", [{"txt": ""}], r"unknown key 'txt' in \[\[match\]\]; did you mean 'text'?"),
    ("rewrite", "(x) => (y) {}", r"'rewrite' must be a table, not the string '\(x\) =>"),
    ("rewrite", {}, r"the key 'text' is missing in \[rewrite\]"),
    ("sample", ["x"], "'sample' must be a table, not the string 'x'"),
    ("sample", [{"shapes": 3}], "'sample.shapes' must be a table of shapes, not 3"),
    ("sample", [{"shapes": {"x": "2"}}], "'sample.shapes.x' must be a dim or a list of dims, not the string '2'"),
    ("sample", [{"absent": "b"}], "'sample.absent' must be a list of inputs, not the string 'b'"),
    ("reject", [{"why": "w"}], r"the key 'text' is missing in \[\[reject\]\]"),
    ("sumary", "x", "unknown key 'sumary' in the rule; did you mean 'summary'?"),
]


@pytest.mark.parametrize(("key", "value", "message"), _DAMAGE)
def test_loader_and_schema_refuse_the_same(tmp_path: Path, key: str, value: Any, message: str) -> None:
    data = {**_data(_RULES / "conv" / "conv-batchnorm.toml"), key: value}
    assert not _VALIDATOR.is_valid(data)
    path = tmp_path / "damaged.toml"
    path.write_text(_toml(data), encoding="utf-8")
    line = 1 + [text.split(" = ")[0] for text in path.read_text().splitlines()].index(key)
    with pytest.raises(RuleError, match=message) as raised:
        load_rulebook([path], builtin=False)
    place = re.match(rf"{re.escape(str(path))}:(\d+):\d+: ", str(raised.value))
    assert place and int(place[1]) == line


@pytest.mark.parametrize("key", [name for name, key in RULE.keys.items() if key.required])
def test_required_keys(tmp_path: Path, key: str) -> None:
    data = copy.deepcopy(_data(_RULES / "dropout" / "dropout.toml"))
    del data[key]
    assert not _VALIDATOR.is_valid(data)
    (tmp_path / "a.toml").write_text(_toml(data), encoding="utf-8")
    with pytest.raises(RuleError, match=f"the key '{key}' is missing in the rule; for example: "):
        load_rulebook([tmp_path], builtin=False)


def test_a_file_of_a_newer_format_is_refused_in_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "a.toml").write_text("format = 2\nnews = true\n")
    with pytest.raises(RuleError) as raised:
        load_rulebook([tmp_path], builtin=False)
    assert str(raised.value) == (
        f"{tmp_path / 'a.toml'}:1:1: this file is written in rule format 2, this onnxfuse reads format 1: "
        "install a newer onnxfuse"
    )


def test_format_1_may_be_stated(tmp_path: Path) -> None:
    text = (_RULES / "dropout" / "dropout.toml").read_text()
    (tmp_path / "dropout.toml").write_text("format = 1\n" + text)
    assert [rule.name for rule in load_rulebook([tmp_path], builtin=False).rules] == ["dropout"]


def test_examples_of_keys_are_what_they_are_examples_of() -> None:
    for key in _keys(RULE):
        example = next(iter(tomllib.loads(key.example).values())) if "=" in key.example else None
        if example is not None:
            assert list(key.kind.problems(example, ("key",))) == []


def test_readme_explains_every_key() -> None:
    table = (_RULES / "README.md").read_text().partition("### Keys")[2].partition("### Guards")[0]
    named = {word for code in re.findall(r"`([^`]+)`", table) for word in re.findall(r"\w+", code)}
    keys = {name for record in _records(RULE) for name in record.keys}
    assert keys - named == set()


def _records(kind: object) -> Iterator[Record]:
    if isinstance(kind, Record):
        yield kind
        for key in kind.keys.values():
            yield from _records(key.kind)
    elif isinstance(kind, ListOf | MapOf):
        yield from _records(kind.item)


def _keys(record: Record) -> Iterator[Any]:
    for found in (*_records(record), *_records(FORMS)):
        yield from found.keys.values()


def _toml(table: dict[str, Any]) -> str:
    """Write what these tests need of TOML: every key on a line of its own, tables inline."""
    return "".join(f"{key} = {_value(value)}\n" for key, value in table.items())


def _value(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f'"{key}" = {_value(item)}' for key, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_value, value)) + "]"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        escaped = value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
        return f'"{escaped}"'
    return repr(value)
