"""Rules that ask for terabytes or for years when they are applied or verified: refused before anything is taken.

Each asks for so much that a machine which tried would fail at once, and with another message.
"""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from onnxfuse.prove import verify_rule
from onnxfuse.rulebook.load import load_rulebook

from ..helpers import model, rule_file
from ..match.rules import tried

_SECONDS = 20.0
_HEAD = "opset = 18\n"
_ABS = "(x) => (y) { t = Abs (x)  y = Abs (t) }"


def problems(folder: Path, match: str, rewrite: str, inputs: str, tables: str) -> str:
    rule_file(folder, match, rewrite, inputs, head=_HEAD)
    path = folder / "test-rule.toml"
    path.write_text(path.read_text() + tables)
    began = time.perf_counter()
    proof = verify_rule(load_rulebook([path], builtin=False), "test-rule")
    assert time.perf_counter() - began < _SECONDS
    return "\n".join(map(str, proof.problems))


def test_a_sample_whose_dims_stand_for_many(tmp_path: Path) -> None:
    found = problems(
        tmp_path,
        "(x) => (y) { t = Abs (x)  y = Abs (t) }",
        "(x) => (y) { y = Abs (x) }",
        'x = "T[M, M, M]"',
        "[[sample]]\nshapes = { M = 60000 }\n",
    )
    assert "'x' would have the shape [60000, 60000, 60000], more than 65,536 elements" in found


def test_a_sample_whose_values_multiply(tmp_path: Path) -> None:
    found = problems(
        tmp_path,
        "(x, z) => (y) { t = Add (x, z)  y = Neg (t) }",
        "(x, z) => (y) { t = Neg (x)  y = Sub (t, z) }",
        'x = "T"\nz = "T"',
        "[[sample]]\nshapes = { x = [60000, 1, 1], z = [60000, 1] }\n"
        "[[sample]]\nshapes = { x = [60000, 1], z = [60000] }\n",
    )
    assert "its values have more than 2,097,152 elements" in found


@pytest.mark.parametrize("weight", ["float[100000, 1000000] w", "float[100000000000] w"])
def test_a_reject_that_declares_a_weight_without_numbers(tmp_path: Path, weight: str) -> None:
    reject = f"g (float[2] x) => (float[2] y) <{weight}> {{ y = Abs (x) }}"
    found = problems(
        tmp_path,
        _ABS,
        "(x) => (y) { y = Abs (x) }",
        'x = "T"',
        f"[[sample]]\nshapes = {{ x = [2] }}\n[[reject]]\nwhy = 'w'\ntext = '{reject}'\n",
    )
    assert "with 'w' its values have more than 2,097,152 elements" in found


HUGE = [
    "n = Constant <value_ints: ints = [1000000, 1000000]> ()  big = ConstantOfShape (n)",
    "n = Constant <value_ints: ints = [1000000, 1000000]> ()  big = Expand (one, n)",
    "n = Constant <value_ints: ints = [1000000, 1000000]> ()  r = Reshape (one, u)  rr = Tile (r, n)  big = Erf (rr)",
    "k = Constant <value_int: int = 1000000000000> ()  z = Constant <value_int: int = 0> ()"
    "  i = Constant <value_int: int = 1> ()  r = Range (z, k, i)  big = Cast <to: int = 1> (r)",
    "t0 = Reshape (one, u)  " + "  ".join(f"t{i + 1} = Concat <axis: int = 0> (t{i}, t{i})" for i in range(50))
    + "  big = Erf (t50)",
    "n = Constant <value_ints: ints = [2000]> ()  c = ConstantOfShape (n)  d = Erf (c)"
    '  big = Einsum <equation: string = "a,b,c,d,e->"> (d, d, d, d, d)',
]  # fmt: skip
_SMALL = "one = Constant <value_float: float = 0.0> ()  u = Constant <value_ints: ints = [1, 1]> ()  "


@pytest.mark.parametrize("lines", HUGE)
def test_a_rewrite_that_makes_terabytes_is_refused(lines: str) -> None:
    proto = model("g (float[2] x) => (float[2] y) { t = Abs (x)  y = Abs (t) }")
    rewrite = f"(x) => (y) {{ {_SMALL}{lines}  s = ReduceMax <keepdims: int = 0> (big)  y = Add (x, s) }}"
    began = time.perf_counter()
    fired, misses = tried(proto, _ABS, head=_HEAD, rewrite=rewrite)
    assert time.perf_counter() - began < _SECONDS
    assert fired == 0
    assert any(word in misses[0] for word in ("too many elements", "too many steps", "elements"))


@pytest.mark.parametrize("lines", HUGE)
def test_a_requirement_that_makes_terabytes_is_refused(lines: str) -> None:
    proto = model("g (float[2] x) => (float[2] y) { t = Abs (x)  y = Abs (t) }")
    text = f"() => (ok) {{ {_SMALL}{lines}  ok = LessOrEqual (big, big) }}"
    require = f"[[require]]\nwhy = 'it is so'\ntext = '''{text}'''\n"
    fired, misses = tried(proto, _ABS, head=_HEAD + require)
    assert fired == 0
    assert misses[0].startswith("it cannot be told whether it is so: ")


def test_a_replacement_that_needs_terabytes_at_run_time_is_refused() -> None:
    proto = model("g (float[2] x) => (float[2] y) { t = Abs (x)  y = Abs (t) }")
    rewrite = (
        "(x) => (y) { n = Constant <value_ints: ints = [1000000, 1000000, 2]> () "
        "a = Constant <value_ints: ints = [0, 1]> ()  big = Expand (x, n) "
        "s = ReduceMax <keepdims: int = 0> (big, a)  y = Abs (s) }"
    )
    misses = ["its value 'big' would have 2,000,000,000,000 elements"]
    assert tried(proto, _ABS, head=_HEAD, rewrite=rewrite) == (0, misses)
