"""`onnxfuse rules list | show | new | schema`: what they print, write and refuse."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path

import jsonschema
import pytest
from onnx import defs

from onnxfuse.cli.main import main
from onnxfuse.errors import UsageError
from onnxfuse.match.pattern import compile_patterns
from onnxfuse.rulebook.load import load_rulebook
from onnxfuse.rulebook.scaffold import scaffold
from onnxfuse.rulebook.syntax.schema import rule_schema

_RULES = Path(__file__).parents[2] / "rules"
_NAMES = {path.stem for path in _RULES.rglob("*.toml")} - {"forms"}
_MINE = """summary = "Turn two Abs into one."
opset = 18
[inputs]
x = "T"
[[match]]
text = '(x) => (y) { t = Abs (x)  y = Abs (t) }'
[rewrite]
text = '(x) => (y) { y = Abs (x) }'
"""


def _out(capsys: pytest.CaptureFixture[str], *args: str) -> str:
    assert main(["rules", *args]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    return out


def _err(capsys: pytest.CaptureFixture[str], *args: str) -> str:
    assert main(["rules", *args]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("error: ") and err.count("\n") == 1
    return err


def test_list_has_every_rule_in_the_order_in_which_they_are_tried(capsys: pytest.CaptureFixture[str]) -> None:
    head, *rows = _out(capsys, "list", "--color", "never").splitlines()
    assert head.split() == ["rule", "safety", "status", "opsets", "types", "what", "it", "does"]
    names = [row.split()[0] for row in rows]
    assert set(names) == _NAMES
    orders = {path.stem: tomllib.loads(path.read_text()).get("order", 50) for path in _RULES.rglob("*/*.toml")}
    assert names == sorted(names, key=lambda name: (orders[name], name))


def test_list_as_json_says_what_the_files_say(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "two-abs.toml").write_text(_MINE)
    document = json.loads(_out(capsys, "list", "--format", "json", "--rules", str(tmp_path)))
    assert document["schema_version"] == 1
    rules = {rule["name"]: rule for rule in document["rules"]}
    assert rules.keys() == _NAMES | {"two-abs"}
    assert rules["two-abs"] == {
        "name": "two-abs", "summary": "Turn two Abs into one.", "safety": "rounding", "status": "stable", "order": 50,
        "opsets": [18], "types": {"T": ["float"]}, "matches": 1, "samples": 0, "rejects": 0,
        "path": (tmp_path / "two-abs.toml").as_posix(),
    }  # fmt: skip
    data = tomllib.loads((_RULES / "conv" / "conv-batchnorm.toml").read_text())
    shown = rules["conv-batchnorm"]
    assert shown["path"] is None
    assert shown["opsets"] == sorted([data["opset"], *data["also"]])
    assert (shown["types"], shown["samples"]) == ({"T": data["types"]}, len(data["sample"]))


def test_a_rule_of_mine_takes_the_place_of_one_of_the_same_name(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "dropout.toml").write_text(_MINE)
    row = next(r for r in _out(capsys, "list", "--rules", str(tmp_path)).splitlines() if r.startswith("dropout "))
    assert "Turn two Abs into one." in row


def test_a_broken_rule_file_is_one_line_and_2(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "a.toml"
    path.write_text(_MINE.replace("opset = 18", 'opset = "18"'))
    assert _err(capsys, "list", "--rules", str(path)) == (
        f"error: {path}:2:1: 'opset' must be an opset, not the string '18'; for example: opset = 18\n"
    )


@pytest.mark.parametrize("name", sorted(_NAMES))
@pytest.mark.parametrize("forms", [[], ["--forms"]], ids=["short", "forms"])
def test_show_has_all_that_a_rule_says(capsys: pytest.CaptureFixture[str], name: str, forms: list[str]) -> None:
    data = tomllib.loads(next(_RULES.rglob(f"{name}.toml")).read_text())
    out = _out(capsys, "show", name, *forms)
    flat = " ".join(out.split())
    for text in (data["summary"], data["why"], data.get("source", ""), *data.get("exporters", [])):
        assert text in flat
    for reject in data.get("reject", []):
        assert reject["why"] in flat
    texts = [data["rewrite"]["text"], *(match["text"] for match in data["match"])]
    ops = {op for text in texts for op in re.findall(r"= ([\w.]+) [(<]", text)} - {"Constant"}
    assert [op for op in ops if op not in out] == []
    assert all(re.search(rf"^ +{name} ", out, re.MULTILINE) for name in data["inputs"])


def test_show_draws_a_rule(capsys: pytest.CaptureFixture[str]) -> None:
    """A drawing made by hand from rules/gemm/matmul-residual-bias.toml."""
    drawing = """\
  match => rewrite
    y = Add        =>  y = Add
    ├─ Add             ├─ Gemm
    │  ├─ MatMul       │  ├─ a
    │  │  ├─ a         │  ├─ b
    │  │  └─ b         │  └─ c
    │  └─ r            └─ r
    └─ c
"""
    assert drawing in _out(capsys, "show", "matmul-residual-bias")


def test_conditions_in_words(capsys: pytest.CaptureFixture[str]) -> None:
    out = _out(capsys, "show", "conv-batchnorm")
    assert "b      constant, T, rank 1 [M], may be absent, then Sub (mean, mean) stands for it" in out
    assert "The Conv labelled [conv] may have any other attributes, and keeps them." in out
    assert "M is the same dim in w, b, scale, bias, mean and var." in out
    out = _out(capsys, "show", "matmul-add")
    assert "c  constant, T, any shape, broadcasts one way to [M, N]" in out
    out = _out(capsys, "show", "layernorm")
    assert "@axes names just the dims V, which are the last ones." in out
    assert "@axis is the value of 'axis', computed when the rule is applied." in out
    out = _out(capsys, "show", "gelu-erf", "--forms")
    assert "1.4142135623730951 within 0.0001" in out or "1.41421354 within 0.0001" in out


def test_show_suggests_a_name(capsys: pytest.CaptureFixture[str]) -> None:
    message = "no rule is called 'layernrm'; did you mean 'layernorm'? (`onnxfuse rules list` names all)"
    assert _err(capsys, "show", "layernrm") == f"error: {message}\n"


def test_a_stream_without_line_drawing_gets_plain_strokes(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("onnxfuse.cli.rules.show._draws_boxes", lambda: False)
    out = _out(capsys, "show", "layernorm", "--forms", "--color", "never")
    assert out.isascii()
    assert "`- x" in out and "d (above)" in out


def test_new_writes_a_rule_that_loads(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    out = _out(capsys, "new", "my-rule", "--dir", "mine")
    assert out.splitlines()[0] == str(Path("mine") / "my-rule.toml")
    (rule,) = load_rulebook([tmp_path / "mine"], builtin=False).rules
    assert rule.name == "my-rule"
    for line in re.findall(r"^  onnxfuse (.*)$", out, re.MULTILINE):
        if line.startswith("rules show"):
            assert main(line.split()) == 0


def test_new_never_overwrites(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "my-rule.toml"
    path.write_text("mine")
    assert "is there already" in _err(capsys, "new", "my-rule", "--dir", str(tmp_path))
    assert path.read_text() == "mine"


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["MyRule"], "'MyRule' is no name for a rule: use lower-case words with hyphens, for example 'my-rule'"),
        (["../up"], "for example 'up'"),
        (["dropout"], "a built-in rule is called 'dropout'"),
        (["a", "--op", "Rellu"], "ONNX has no operator 'Rellu'; did you mean 'Relu'?"),
        (["a", "--op", "And"], "no rule can be begun with And"),
        (["a"], "cannot be written"),
    ],
)
def test_new_refuses(capsys: pytest.CaptureFixture[str], tmp_path: Path, args: list[str], message: str) -> None:
    (tmp_path / "file").write_text("")
    folder = tmp_path / ("file" if args == ["a"] else "")
    assert message in _err(capsys, "new", *args, "--dir", str(folder / "sub" if args == ["a"] else folder))
    assert [path.name for path in tmp_path.rglob("*")] == ["file"]


_OPS = sorted({found.name for found in defs.get_all_schemas() if not found.domain})


def test_a_scaffold_loads_for_every_operator_that_it_can_begin_with(tmp_path: Path) -> None:
    validator = jsonschema.Draft202012Validator(rule_schema())
    begun = 0
    for op in _OPS:
        try:
            text = scaffold(op)
        except UsageError:
            continue
        begun += 1
        validator.validate(tomllib.loads(text))
        (tmp_path / "a.toml").write_text(text)
        (pattern,) = compile_patterns(load_rulebook([tmp_path], builtin=False))
        assert [line.text.op for line in pattern.producers["y"]] == [op]
    assert begun > 80


@pytest.mark.parametrize("op", ["Relu", "Add", "Conv", "MatMul", "Gather", "Cast", "LayerNormalization"])
def test_a_scaffold_is_a_true_rule(tmp_path: Path, op: str) -> None:
    """Its sample fuses, and its reject does not."""
    import onnx

    import onnxfuse

    (tmp_path / "mine.toml").write_text(scaffold(op))
    (rule,) = load_rulebook([tmp_path], builtin=False).rules
    graph = onnx.parser.parse_graph(rule.rejects[0].text)
    imports = [onnx.helper.make_opsetid("", rule.verified[0])]
    refused = onnx.helper.make_model(graph, opset_imports=imports, ir_version=10)
    taken = onnx.ModelProto()
    taken.CopyFrom(refused)
    del taken.graph.output[1:]
    for model, fusions in ((refused, 0), (taken, 1)):
        onnx.checker.check_model(model, full_check=True)
        result = onnxfuse.optimize(model, rules=[tmp_path], select=["mine"])
        assert len(result.fusions) == fusions


def test_schema_is_json_schema(capsys: pytest.CaptureFixture[str]) -> None:
    for args, key in (([], "summary"), (["--forms"], "form")):
        schema = json.loads(_out(capsys, "schema", *args))
        jsonschema.Draft202012Validator.check_schema(schema)
        assert key in schema["properties"]
        assert all(entry["description"] for entry in schema["properties"].values())


def test_completion_knows_the_rules() -> None:
    from onnxfuse.cli.rules.show import command

    (parameter,) = (p for p in command.params if p.name == "name")
    import click

    with click.Context(command) as context:
        assert {item.value for item in parameter.shell_complete(context, "layer")} == {
            name for name in _NAMES if name.startswith("layer")
        }
