"""MatMul + Add and Gemm; GELU; attention: what may be fused and what only looks so."""

from __future__ import annotations

from tests.cases.case import Case

_GELU = """
        scaled{0} = Div ({1}, root)
        erf{0} = Erf (scaled{0})
        more{0} = Add (erf{0}, one)
        gated{0} = Mul ({1}, more{0})
        {2} = Mul (gated{0}, half)"""
_NUMBERS = "float one = {1}, float half = {0.5}, float root = {1.4142135}"

CASES = {
    "bias-before-the-product": Case(
        "A constant bias may be either operand of the Add, and the batch may be dynamic.",
        """g (float[n, 4] x) => (float[n, 3] y) <float[4, 3] w, float[3] bias> {
            m = MatMul (x, w)
            y = Add (bias, m)
        }""",
        fused=("Gemm",), gone=("MatMul", "Add"),
    ),
    "bias-of-rank-3": Case(
        "An addend of higher rank than the product makes the result larger.",
        """g (float[4, 2] x) => (float[1, 4, 3] y) <float[2, 3] w, float[1, 4, 3] cube> {
            m = MatMul (x, w)
            y = Add (m, cube)
        }""",
        kept=("Add",), gone=("Gemm",),
    ),
    "second-bias-of-a-gemm": Case(
        "Two biases may be one only where their shapes agree, and beta scales the first alone.",
        """g (float[3, 2] x) => (float[3, 4] a, float[1, 3, 4] b)
        <float[2, 4] w, float[4] c, float[4] more, float[2, 4] v, float[4] d, float[1, 3, 4] cube> {
            s = Gemm <beta = 0.25> (x, w, c)
            a = Add (s, more)
            t = Gemm (x, v, d)
            b = Add (t, cube)
        }""",
    ),
    "product-of-rank-3-and-1": Case(
        "Gemm takes matrices only.",
        """g (float[n, 2, 4] x, float[4] v) => (float[n, 2, 3] y, float[3] z)
        <float[4, 3] w, float[3] b, float[4, 3] w1, float[3] b1> {
            m = MatMul (x, w)
            y = Add (m, b)
            k = MatMul (v, w1)
            z = Add (k, b1)
        }""",
        kept=("MatMul", "Add"),
    ),
    "integers": Case(
        "onnxruntime multiplies integer matrices, but has no integer Gemm on the CPU.",
        """g (int32[2, 3] x) => (int32[2, 2] y) <int32[3, 2] w = {1, 0, 2, 1, 0, 3}, int32[2] bias = {5, -1}> {
            m = MatMul (x, w)
            y = Add (m, bias)
        }""",
        kept=("MatMul", "Add"),
    ),
    "residual-is-no-bias": Case(
        "What is added at run time is a residual.",
        """g (float[n, 4] x, float[n, 4] r) => (float[n, 4] y) <float[4, 4] w> {
            m = MatMul (x, w)
            y = Add (m, r)
        }""",
        kept=("MatMul", "Add"),
    ),
    "gelu-raises-the-opset": Case(
        "Gelu exists from opset 20 on.",
        f"g (float[n, 6] x) => (float[n, 6] y) <{_NUMBERS}> {{ {_GELU.format('', 'x', 'y')} }}",
        opset=18, fused=("Gelu",), gone=("Erf",),
    ),
    "almost-gelu": Case(
        "0.52 is not a half, and 1.4 is not the root of two.",
        f"""g (float[n, 6] x) => (float[n, 6] y, float[n, 6] z)
        <float one = {{1}}, float half = {{0.52}}, float root = {{1.4142135}}, float short = {{1.4}},
         float exact = {{0.5}}> {{
            {_GELU.format("", "x", "y")}
            {_GELU.format("2", "x", "z").replace("root", "short").replace("half", "exact")}
        }}""",
        opset=20, gone=("Gelu",), kept=("Erf",),
    ),
    "bias-that-widens-a-gelu": Case(
        "A bias before a GELU may be a matrix.",
        f"g (float[3, 1] x) => (float[3, 5] y) <{_NUMBERS}, float[3, 5] bias> {{"
        f" s = Add (x, bias) {_GELU.format('', 's', 'y')} }}",
        opset=20, fused=("Gelu", "Add"),
    ),
    "tanh-gelu": Case(
        "The tanh formula is another function than the erf one.",
        """g (float[n, 6] x) => (float[n, 6] y)
        <float three = {3}, float c = {0.044715}, float r = {0.7978845608}, float one = {1}, float half = {0.5}> {
            cube = Pow (x, three)
            small = Mul (cube, c)
            sum = Add (x, small)
            inner = Mul (sum, r)
            t = Tanh (inner)
            more = Add (t, one)
            h = Mul (x, half)
            y = Mul (h, more)
        }""",
        opset=20, fused=("Gelu",), gone=("Tanh",),
    ),
    "attention-without-scale": Case(
        "Scores that are not scaled are not scaled by one over the root of the head's width either.",
        """g (float[1, 2, 3, 4] q, float[1, 2, 3, 4] k, float[1, 2, 3, 4] v) => (float[1, 2, 3, 4] y) {
            t = Transpose <perm = [0, 1, 3, 2]> (k)
            s = MatMul (q, t)
            p = Softmax <axis = -1> (s)
            y = MatMul (p, v)
        }""",
        opset=23, ir=11,
    ),
    "softmax-of-old": Case(
        "Before opset 13 a Softmax without an axis normalizes over all dims from the second on.",
        """g (float[1, 2, 3, 4] q, float[1, 2, 3, 4] k, float[1, 2, 3, 4] v) => (float[1, 2, 3, 4] y)
        <float scale = {0.25}> {
            t = Transpose <perm = [0, 1, 3, 2]> (k)
            s = MatMul (q, t)
            z = Mul (s, scale)
            p = Softmax (z)
            y = MatMul (p, v)
        }""",
        opset=11,
    ),
    "rows-masked-whole": Case(
        "A row whose keys are all masked gives 0, where a guard says so, and not NaN.",
        """g (float[1, 2, 3, 4] q, float[1, 2, 3, 4] k, float[1, 2, 3, 4] v, bool[1, 1, 3, 3] keep)
            => (float[1, 2, 3, 4] y) <float scale = {0.5}, float low = {-inf}, float zero = {0}> {
            t = Transpose <perm = [0, 1, 3, 2]> (k)
            s = MatMul (q, t)
            z = Mul (s, scale)
            masked = Where (keep, z, low)
            p = Softmax <axis = -1> (masked)
            bad = IsNaN (p)
            safe = Where (bad, zero, p)
            y = MatMul (safe, v)
        }""",
        opset=23, ir=11, feeds={"keep": [[[[1, 1, 0], [0, 0, 0], [0, 1, 1]]]]},
    ),
    "key-not-transposed": Case(
        "A square product of queries and keys is no attention unless the last two dims of the key are swapped.",
        """g (float[1, 2, 4, 4] q, float[1, 2, 4, 4] k, float[1, 2, 4, 4] v)
            => (float[1, 2, 4, 4] a, float[1, 2, 4, 4] b) <float scale = {0.5}, int64[4] shape = {1, 2, 4, 4}> {
            s = MatMul (q, k)
            z = Mul (s, scale)
            p = Softmax <axis = -1> (z)
            a = MatMul (p, v)
            t = Transpose <perm = [0, 2, 3, 1]> (k)
            u = Reshape (t, shape)
            s2 = MatMul (q, u)
            z2 = Mul (s2, scale)
            p2 = Softmax <axis = -1> (z2)
            b = MatMul (p2, v)
        }""",
        opset=23, ir=11, gone=("Attention",),
    ),
}  # fmt: skip
