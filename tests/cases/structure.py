"""Constants, shapes and clean-up: no-ops that are none, chains that compose, outputs that are read."""

from __future__ import annotations

from tests.cases.case import Case

CASES = {
    "float-constants": Case(
        "Constants written as attributes are float32 and int64.",
        """g (float[2] x) => (float[2, 1] y) {
            a = Constant <value_float = 0.25> ()
            b = Constant <value_floats = [1.0, 2.0]> ()
            shape = Constant <value_ints = [2, 1]> ()
            m = Mul (x, a)
            s = Add (m, b)
            y = Reshape (s, shape)
        }""",
    ),
    "empty-inputs": Case(
        "Optional inputs that are left out keep their places.",
        """g (float[1, 1, 2, 2] x) => (float[1, 1, 4, 4] y) <float[4] scales = {1, 1, 2, 2}, float high = {0.3}> {
            r = Resize <mode = "nearest"> (x, , scales)
            y = Clip (r, , high)
        }""",
        kept=("Resize", "Clip"),
    ),
    "slices-of-slices": Case(
        "Starts and steps compose, they do not replace each other; a slice that is read twice stays.",
        """g (float[10, 6] x) => (float[2, 6] a, float[3, 6] b, float[8, 2] c, float d)
        <int64[1] i0 = {0}, int64[1] i1 = {1}, int64[1] i2 = {2}, int64[1] i3 = {3}, int64[1] i5 = {5},
         int64[1] i9 = {9}, int64[1] back = {-1}, int64[1] far = {-100}> {
            p = Slice (x, i2, i9, i0, i1)
            a = Slice (p, i1, i5, i0, i2)
            r = Slice (x, back, far, i0, back)
            b = Slice (r, i0, i3, i0, i1)
            m = Slice (x, i1, i9, i0, i1)
            c = Slice (m, i0, i2, i1, i1)
            d = ReduceSum <keepdims = 0> (m)
        }""",
    ),
    "reshape-that-copies-a-dim": Case(
        "A 0 in a shape means a dim of that Reshape's own input.",
        """g (float[2, 3, 4] x) => (float[6, 2, 2] y) <int64[2] first = {6, 4}, int64[3] second = {0, 2, -1}> {
            a = Reshape (x, first)
            y = Reshape (a, second)
        }""",
    ),
    "reshape-of-nothing": Case(
        "With allowzero a 0 is a size.",
        """g (float[0, 6, 2] x) => (float[0, 5, 3] y) <int64[3] first = {3, 2, 0}, int64[3] second = {0, 5, 3}> {
            a = Reshape <allowzero = 1> (x, first)
            y = Reshape <allowzero = 1> (a, second)
        }""",
    ),
    "reshape-of-a-shape": Case(
        "A chain of Reshapes that ends in a shape computes a shape, not data.",
        """g (float[4] x, int64[1, 2] target) => (float[p, q] y) <int64[2] first = {2, 1}, int64[1] second = {2}> {
            a = Reshape (target, first)
            b = Reshape (a, second)
            y = Reshape (x, b)
        }""",
        opset=21, ir=10, feeds={"target": [[2, 2]]},
    ),
    "transpose-with-three-readers": Case(
        "A Transpose goes only when nobody reads it any more.",
        """g (float[4, 3] x) => (float[3, 2] a, float[5, 4] b, float[3, 4] c) <float[4, 2] v, float[5, 3] w> {
            t = Transpose <perm = [1, 0]> (x)
            a = MatMul (t, v)
            b = MatMul (w, t)
            c = Sigmoid (t)
        }""",
        kept=("Sigmoid",),
    ),
    "second-output-in-use": Case(
        "A Dropout whose mask is read is no Identity.",
        """g (float[1, 1, 4, 4] x) => (float[1, 1, 2, 2] top, int64[1, 1, 2, 2] at, bool[1, 1, 4, 4] mask) {
            kept, mask = Dropout (x)
            top, at = MaxPool <kernel_shape = [2, 2], strides = [2, 2]> (kept)
        }""",
        opset=13, kept=("MaxPool",),
    ),
    "almost-neutral": Case(
        "1e-8 is not 0, and 1.000005 is not 1.",
        """g (float[3] x, float[2] big) => (float[3] ratio, float[2] drift)
        <float guard = {1e-8}, float factor = {1.000005}> {
            s = Add (x, guard)
            ratio = Div (x, s)
            m = Mul (big, factor)
            drift = Sub (m, big)
        }""",
        kept=("Add", "Div", "Mul", "Sub"), feeds={"x": [0.0, 1e-8, 4.0], "big": [1e5, -3e5]},
    ),
    "no-ops-in-a-row": Case(
        "What one rule removes the next one must not refer to.",
        """g (float[3] x) => (float[3] a, float[3] b, float[3] c)
        <float[1] p = {3}, float[1] q = {3}, float[1] z = {0}> {
            s = Cast <to = 1> (x)
            one = Div (p, q)
            ms = Mul (s, one)
            a = Add (ms, z)
            t = Identity (x)
            mt = Mul (t, one)
            b = Add (mt, z)
            u = Dropout (x)
            mu = Mul (u, one)
            c = Add (mu, z)
        }""",
        gone=("Cast", "Div", "Dropout"),
    ),
    "empty-batch": Case(
        "A batch of 0 rows is a batch.",
        """g (float[n, 4] x) => (float[n, 3] y) <float[4, 3] w, float[3] bias> {
            m = MatMul (x, w)
            y = Add (m, bias)
        }""",
        sizes=(0, 1, 3),
    ),
    "recipe-of-a-large-constant": Case(
        "A constant that a few bytes describe is not written out.",
        """g (float[1] x) => (float y) <int64[2] size = {1024, 1024}> {
            c = ConstantOfShape <value = float[1] {0.25}> (size)
            m = Mul (c, x)
            y = ReduceSum <keepdims = 0> (m)
        }""",
        kept=("ConstantOfShape",),
    ),
}  # fmt: skip
