"""BatchNormalization behind Conv and ConvTranspose, and what stands around them."""

from __future__ import annotations

from tests.cases.case import Case

_NORM = "gain, shift, mean, var"

CASES = {
    "shared-kernel": Case(
        "A kernel that several Convs share is copied for a fold, never changed.",
        f"""g (float[1, 2, 6, 5] x) => (float[1, 3, 4, 3] a, float[1, 3, 4, 3] b, float[1, 3, 4, 3] raw)
        <float[3, 2, 3, 3] k, float[3] gain, float[3] shift, float[3] mean, float[3] var,
         float[3] gain2, float[3] shift2, float[3] mean2, float[3] var2> {{
            s = Conv (x, k)
            a = BatchNormalization (s, {_NORM})
            t = Conv (x, k)
            b = BatchNormalization (t, gain2, shift2, mean2, var2)
            raw = Conv (x, k)
        }}""",
        fused=("Conv",), gone=("BatchNormalization",),
    ),
    "conv-read-twice": Case(
        "What somebody else reads, too, stays as it is.",
        f"""g (float[1, 2, 5, 5] x) => (float[1, 3, 3, 3] y)
        <float[3, 2, 3, 3] k, float[3] b, float[3] gain, float[3] shift, float[3] mean, float[3] var> {{
            c = Conv (x, k, b)
            n = BatchNormalization (c, {_NORM})
            y = Mul (n, c)
        }}""",
        kept=("Conv", "BatchNormalization"),
    ),
    "conv-is-an-output": Case(
        "A graph output keeps its value.",
        f"""g (float[1, 2, 5, 5] x) => (float[1, 3, 3, 3] tap, float[1, 3, 3, 3] y)
        <float[3, 2, 3, 3] k, float[3] gain, float[3] shift, float[3] mean, float[3] var> {{
            tap = Conv (x, k)
            y = BatchNormalization (tap, {_NORM})
        }}""",
        kept=("Conv", "BatchNormalization"),
    ),
    "norm-per-element": Case(
        "Before opset 9 a BatchNormalization may have a scale per element (spatial = 0), which no kernel can hold.",
        f"""g (float[1, 2, 3, 4] x) => (float[1, 2, 3, 4] y)
        <float[2, 2, 1, 1] k, float[2, 3, 4] gain, float[2, 3, 4] shift, float[2, 3, 4] mean, float[2, 3, 4] var> {{
            c = Conv (x, k)
            y = BatchNormalization <spatial = 0> (c, {_NORM})
        }}""",
        opset=7, kept=("BatchNormalization",),
    ),
    "depthwise": Case(
        "Groups, the old bias and an epsilon of one's own are all honoured.",
        f"""g (float[n, 5, 6, 6] x) => (float[n, 5, 6, 6] y)
        <float[5, 1, 3, 3] k, float[5] b, float[5] gain, float[5] shift, float[5] mean, float[5] var> {{
            c = Conv <group = 5, pads = [1, 1, 1, 1]> (x, k, b)
            y = BatchNormalization <epsilon = 0.2> (c, {_NORM})
        }}""",
        fused=("Conv",), gone=("BatchNormalization",),
    ),
    "transposed-groups": Case(
        "The channels of a grouped ConvTranspose lie in the second dim of its kernel, group by group.",
        f"""g (float[n, 4, 5, 5] x) => (float[n, 6, 10, 10] y)
        <float[4, 3, 2, 2] k, float[6] gain, float[6] shift, float[6] mean, float[6] var> {{
            c = ConvTranspose <group = 2, strides = [2, 2]> (x, k)
            y = BatchNormalization (c, {_NORM})
        }}""",
        fused=("ConvTranspose",), gone=("BatchNormalization",),
    ),
    "one-by-one-with-unlike-strides": Case(
        "Two Convs that differ only in their attributes have results of unlike shape.",
        f"""g (float[1, 2, 8, 8] x) => (float[1, 2, 2, 2] y)
        <float[2, 2, 3, 3] k, float[2] gain, float[2] shift, float[2] mean, float[2] var> {{
            c = Conv <pads = [1, 1, 1, 1]> (x, k)
            n = BatchNormalization (c, {_NORM})
            d = Conv <pads = [1, 1, 1, 1], strides = [2, 2]> (n, k)
            m = BatchNormalization (d, {_NORM})
            e = Conv <pads = [1, 1, 1, 1], strides = [2, 2]> (m, k)
            y = BatchNormalization (e, {_NORM})
        }}""",
        fused=("Conv",), gone=("BatchNormalization",),
    ),
    "unknown-rank": Case(
        "A Conv is a Conv whatever is known of its input.",
        f"""g (float[n, 50] x) => (float[a, b, c, d] y)
        <float[3, 2, 3, 3] k, float[3] gain, float[3] shift, float[3] mean, float[3] var,
         int64[5] sizes = {{-1, 2, 5, 5, 1}}, float[5] low = {{-1e9, -1e9, -1e9, -1e9, 1e9}}> {{
            level = ReduceMean <keepdims = 0> (x)
            pick = Less (low, level)
            shape = Compress (sizes, pick)
            image = Reshape (x, shape)
            c = Conv (image, k)
            y = BatchNormalization (c, {_NORM})
        }}""",
        fused=("Conv",), gone=("BatchNormalization",),
    ),
    "plane-is-no-bias": Case(
        "An addend that differs per pixel is no bias of the channels.",
        """g (float[1, 4, 3, 3] x) => (float[1, 4, 3, 3] y)
        <float[4, 2, 1, 1] k, float[4] b, float[1, 4, 3, 3] plane> {
            c = Conv <group = 2> (x, k, b)
            y = Add (c, plane)
        }""",
        kept=("Conv", "Add"),
    ),
    "pad-read-twice": Case(
        "A Pad that a second node reads stays.",
        """g (float[1, 2, 5, 5] x) => (float[1, 2, 5, 5] a, float[1, 2, 6, 6] b)
        <float[2, 2, 3, 3] k, int64[8] pads = {0, 0, 1, 1, 0, 0, 1, 1}> {
            p = Pad (x, pads)
            a = Conv (p, k)
            b = MaxPool <kernel_shape = [2, 2]> (p)
        }""",
        kept=("Pad", "MaxPool"),
    ),
    "pads-that-are-no-conv-pads": Case(
        "Only a constant Pad by zero in front of a Conv with explicit pads is part of that Conv.",
        """g (float[1, 2, 5, 5] x) => (float[1, 2, 7, 7] a, float[1, 2, 5, 5] b, float[1, 2, 5, 5] c)
        <float[2, 2, 3, 3] k, int64[8] pads = {0, 0, 1, 1, 0, 0, 1, 1}, float fill = {2.5}> {
            p = Pad (x, pads)
            a = Conv <auto_pad = "SAME_UPPER"> (p, k)
            q = Pad (x, pads, fill)
            b = Conv (q, k)
            r = Pad <mode = "reflect"> (x, pads)
            c = Conv (r, k)
        }""",
        kept=("Pad", "Conv"),
    ),
    "norm-behind-norm": Case(
        "What one fold makes and the next one folds again is not written.",
        f"""g (float[n, 2, 5, 5] x) => (float[n, 2, 3, 3] y)
        <float[2, 2, 3, 3] k, float[2] gain, float[2] shift, float[2] mean, float[2] var> {{
            c = Conv (x, k)
            b = BatchNormalization (c, {_NORM})
            y = BatchNormalization (b, {_NORM})
        }}""",
        fused=("Conv",), gone=("BatchNormalization",),
    ),
    "parameters-at-run-time": Case(
        "Scales and kernels may be inputs.",
        f"""g (float[1, 2, 5, 5] x, float[3] gain, float[2, 2, 3, 3] k2) => (float[1, 3, 3, 3] y, float[1, 2, 3, 3] z)
        <float[3, 2, 3, 3] k, float[3] shift, float[3] mean, float[3] var,
         float[2] gain2, float[2] shift2, float[2] mean2, float[2] var2> {{
            c = Conv (x, k)
            y = BatchNormalization (c, {_NORM})
            d = Conv (x, k2)
            z = BatchNormalization (d, gain2, shift2, mean2, var2)
        }}""",
        kept=("BatchNormalization",),
    ),
    "defaults-may-be-overridden": Case(
        "From IR version 4 on an initializer that is also an input is only a default.",
        f"""g (float[1, 2, 5, 5] x, float[3, 2, 3, 3] k) => (float[1, 3, 3, 3] y)
        <float[3] gain, float[3] shift, float[3] mean, float[3] var> {{
            c = Conv (x, k)
            y = BatchNormalization (c, {_NORM})
        }}""",
        kept=("BatchNormalization",),
    ),
}  # fmt: skip
