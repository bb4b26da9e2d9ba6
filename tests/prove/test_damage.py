"""Shipped rules damaged by hand: each damage is refused when the rule is read, linted or verified."""

from __future__ import annotations

from pathlib import Path

import pytest

from onnxfuse.errors import RuleError
from onnxfuse.prove import verify_rule
from onnxfuse.rulebook.checks.lint import lint
from onnxfuse.rulebook.library import builtin_rules_dir
from onnxfuse.rulebook.load import load_rulebook

# What is written, and what is written in its place.
CONV_BATCHNORM = [
    ("varEps  = Add (var, eps)", "varEps  = Sub (var, eps)"),
    ("k       = Div (scale, std)", "k       = Mul (scale, std)"),
    ("bShift  = Sub (b, mean)", "bShift  = Sub (mean, b)"),
    ("bScaled = Mul (bShift, k)", "bScaled = Mul (bShift, scale)"),
    ("bNew    = Add (bScaled, bias)", "bNew    = Sub (bScaled, bias)"),
    ("eps     = Constant <value_float: float = @epsilon> ()", "eps     = Constant <value_float: float = 1e-5> ()"),
    ("[conv] y = Conv (x, wNew, bNew)", "y = Conv (x, wNew, bNew)"),
    ('w     = "const T[M, G, ...]"', 'w     = "T[M, G, ...]"'),
    ('b = "Sub (mean, mean)"', 'b = "Sub (var, mean)"'),
    ("(t, scale, bias, mean, var)", "(t, bias, scale, mean, var)"),
    ("Flatten <axis: int = 1> (w)", "Flatten <axis: int = 2> (w)"),
    ('types   = ["float", "float16"]', 'types   = ["float", "float16", "double"]'),
    ("wShape  = Shape (w)", "wShape  = Shape (wRows)"),
]
LAYERNORM = [
    ("d      = Sub (x, mean)", "d      = Sub (mean, x)"),
    ("var    = ReduceMean (dd, axes)", "var    = ReduceMean (d, axes)"),
    ("axis = ReduceMin <keepdims: int = 0> (all)", "axis = ReduceMax <keepdims: int = 0> (all)"),
    ("epsilon: float = @epsilon> (x, scale, bias)", "epsilon: float = 1e-5> (x, scale, bias)"),
    ("@epsilon> (x, scale, bias)", "@epsilon> (x, bias, scale)"),
    ("@epsilon> (x, scale, bias)", "@epsilon> (x, scale)"),
    ('bias  = "T[V...]"', 'bias  = "T"'),
    (', covers = "V" }', " }"),
    ('x     = "T[..., V...]"', 'x     = "T"'),
    ('types   = ["float", "float16"]', 'types   = ["float", "float16", "double", "int32"]'),
    ("opset   = 18", "opset   = 16"),
]
MATMUL_ADD = [
    ('c = "const T -> [M, N]"', 'c = "T -> [M, N]"'),
    ('c = "const T -> [M, N]"', 'c = "const T"'),
    ('a = "T[M, _]"', 'a = "T"'),
    ("y = Gemm (a, b, c)", "y = Gemm (b, a, c)"),
    ("y = Gemm (a, b, c)", "y = Gemm <alpha: float = 2.0> (a, b, c)"),
    ("y = Gemm (a, b, c)", "y = Gemm <beta: float = 0.0> (a, b, c)"),
    ("y = Gemm (a, b, c)", "y = Gemm <transB: int = 1> (a, b, c)"),
    ("y = Gemm (a, b, c)", "y = Gemm (a, b)"),
    ("y = Gemm (a, b, c)", "y = Gemm <gamma: float = 1.0> (a, b, c)"),
    ("y = Add (t, c)", "y = Sub (t, c)"),
    ("y = Add (t, c)", "y = Add (t, t)"),
    ('types   = ["float", "float16", "double"]', 'types   = ["float", "float16", "double", "bfloat16"]'),
]
DAMAGES = [
    *(("conv/conv-batchnorm", *damage) for damage in CONV_BATCHNORM),
    *(("normalization/layernorm", *damage) for damage in LAYERNORM),
    *(("gemm/matmul-add", *damage) for damage in MATMUL_ADD),
]


def complaints(path: Path) -> list[str]:
    """Return what is said of a rule file, up to the first step that says something."""
    forms = builtin_rules_dir() / "forms.toml"
    try:
        book = load_rulebook([forms, path], builtin=False)
    except RuleError as error:
        return [str(error)]
    found = [str(finding) for finding in lint(book)]
    return found or [str(problem) for problem in verify_rule(book, path.stem, whole=False).problems]


@pytest.mark.parametrize(("name", "written", "instead"), DAMAGES)
def test_a_damaged_rule_is_caught(name: str, written: str, instead: str, tmp_path: Path) -> None:
    text = (builtin_rules_dir() / f"{name}.toml").read_text(encoding="utf-8")
    assert written in text
    path = tmp_path / "rules" / f"{Path(name).name}.toml"
    path.parent.mkdir()
    path.write_text(text.replace(written, instead, 1), encoding="utf-8")
    assert complaints(path)
