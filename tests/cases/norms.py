"""LayerNormalization and RMS norms written out, and chains that only look like them."""

from __future__ import annotations

import numpy as np

from tests.cases.case import Case


def _chain(x: str, y: str, tag: str = "", affine: str = "", reduce: str = "axes = [-1]") -> str:
    """Return the lines of a LayerNorm of x; `affine` gives it a scale and a bias, {0} is the normalized value."""
    unit = f"unit{tag}" if affine else y
    lines = f"""
        mu{tag} = ReduceMean <{reduce}> ({x})
        d{tag} = Sub ({x}, mu{tag})
        sq{tag} = Pow (d{tag}, two)
        ms{tag} = ReduceMean <{reduce}> (sq{tag})
        me{tag} = Add (ms{tag}, eps)
        sd{tag} = Sqrt (me{tag})
        {unit} = Div (d{tag}, sd{tag})"""
    return lines + (affine.format(unit) if affine else "")


_CONSTANTS = "float two = {2}, float eps = {1e-5}"
_AFFINE = """
        scaled = Mul ({0}, gain)
        y = Add (scaled, shift)"""
_WIDE = np.stack([np.full(16, 4.0), np.linspace(-800, 800, 16), np.linspace(-1, 1, 16)])

CASES = {
    "layernorm": Case(
        "The chain that exporters write is one LayerNormalization.",
        f"g (float[n, 3, 8] x) => (float[n, 3, 8] y) <{_CONSTANTS}, float[8] gain, float[8] shift> {{"
        f"{_chain('x', 'y', affine=_AFFINE)} }}",
        fused=("LayerNormalization",), gone=("ReduceMean", "Sqrt"),
    ),
    "means-without-their-dim": Case(
        "With keepdims = 0 a square input still has fitting shapes, but the means belong to the other axis.",
        f"g (float[5, 5] x) => (float[5, 5] y) <{_CONSTANTS}, float[5] gain, float[5] shift> {{"
        f"{_chain('x', 'y', affine=_AFFINE, reduce='axes = [-1], keepdims = 0')} }}",
        gone=("LayerNormalization",), kept=("ReduceMean",),
    ),
    "scale-that-widens": Case(
        "A scale longer than the normalized axis makes the result larger.",
        f"g (float[4, 1] x) => (float[4, 6] y) <{_CONSTANTS}, float[6] gain> {{"
        f"{_chain('x', 'u')} y = Mul (gain, u) }}",
        kept=("Mul",),
    ),
    "old-opset": Case(
        "An operator younger than the model's opset is emitted only after the opset is raised.",
        f"g (float[3, 8] x) => (float[3, 8] y) <{_CONSTANTS}, float[8] gain, float[8] shift> {{"
        f"{_chain('x', 'y', affine=_AFFINE)} }}",
        opset=14, fused=("LayerNormalization",), gone=("ReduceMean",),
    ),
    "normalized-value-is-an-output": Case(
        "A graph output inside the chain keeps its value.",
        f"g (float[3, 8] x) => (float[3, 8] unit, float[3, 8] y) <{_CONSTANTS}, float[8] gain, float[8] shift> {{"
        f"{_chain('x', 'y', affine=_AFFINE)} }}",
    ),
    "float16-island": Case(
        "A norm that computes in float32 between Casts does so lest squares overflow and a small epsilon vanish.",
        f"g (float16[3, 16] x) => (float16[3, 16] y) <float two = {{2}}, float eps = {{1e-8}}, float[16] gain, "
        f"float[16] shift> {{ wide = Cast <to = 1> (x) {_chain('wide', 'z', affine=_AFFINE.replace('y =', 'z ='))} "
        "y = Cast <to = 10> (z) }",
        fused=("LayerNormalization",), gone=("ReduceMean",), feeds={"x": _WIDE},
    ),
    "residual-of-lower-rank": Case(
        "A residual that broadcasts is added before the norm, not inside it.",
        f"g (float[n, 3, 8] x, float[3, 8] position) => (float[n, 3, 8] y) <{_CONSTANTS}, float[8] gain, "
        f"float[8] shift> {{ s = Add (position, x) {_chain('s', 'y', affine=_AFFINE)} }}",
        fused=("LayerNormalization", "Add"), gone=("ReduceMean",),
    ),
    "deviation-of-another-value": Case(
        "The deviation must be that of the value which is centred.",
        f"""g (float[3, 8] x, float[3, 8] z) => (float[3, 8] y) <{_CONSTANTS}, float[8] gain, float[8] shift> {{
            muX = ReduceMean <axes = [-1]> (x)
            dX = Sub (x, muX)
            muZ = ReduceMean <axes = [-1]> (z)
            dZ = Sub (z, muZ)
            sq = Pow (dZ, two)
            ms = ReduceMean <axes = [-1]> (sq)
            me = Add (ms, eps)
            sd = Sqrt (me)
            unit = Div (dX, sd)
            {_AFFINE.format("unit")}
        }}""",
        gone=("LayerNormalization", "RMSNormalization"), kept=("Sqrt", "Div"),
    ),
    "two-axes": Case(
        "A norm over the last two axes is one with axis -2.",
        f"g (float[n, 3, 4] x) => (float[n, 3, 4] y) <{_CONSTANTS}, float[3, 4] gain, float[3, 4] shift> {{"
        f"{_chain('x', 'y', affine=_AFFINE, reduce='axes = [1, 2]')} }}",
        fused=("LayerNormalization",), gone=("ReduceMean",),
    ),
    "axis-that-is-not-the-last": Case(
        "A norm over a middle axis is no LayerNormalization.",
        f"g (float[n, 4, 4] x) => (float[n, 4, 4] y) <{_CONSTANTS}, float[4] gain, float[4] shift> {{"
        f"{_chain('x', 'y', affine=_AFFINE, reduce='axes = [1]')} }}",
        gone=("LayerNormalization",),
    ),
    "rms-norm-in-float16": Case(
        "The root of the mean square of large float16 values is taken in float32.",
        """g (float16[2, 8] x) => (float16[2, 8] y)
        <float two = {2}, float eps = {1e-6}, float16[8] gain, int64[1] axes = {-1}> {
            wide = Cast <to = 1> (x)
            sq = Pow (wide, two)
            ms = ReduceMean (sq, axes)
            me = Add (ms, eps)
            sd = Sqrt (me)
            inverse = Reciprocal (sd)
            unit = Mul (wide, inverse)
            narrow = Cast <to = 10> (unit)
            y = Mul (gain, narrow)
        }""",
        opset=23, ir=11, fused=("RMSNormalization",), gone=("ReduceMean",),
        feeds={"x": np.linspace(-500, 600, 16).reshape(2, 8)},
    ),
}  # fmt: skip
