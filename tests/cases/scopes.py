"""Nested graphs, local functions, names and outputs."""

from __future__ import annotations

from tests.cases.case import Case

_NORM = "gain, shift, mean, var"
_TWO = "<float[2, 2, 3, 3] k, float[2] gain, float[2] shift, float[2] mean, float[2] var>"

CASES = {
    "branch-reads-the-conv": Case(
        "A reader inside a branch counts.",
        f"""g (float[1, 2, 4, 4] x, bool c) => (float[1, 2, 2, 2] y) {_TWO} {{
            raw = Conv (x, k)
            n = BatchNormalization (raw, {_NORM})
            i = If (c) <then_branch = t () => (float[1, 2, 2, 2] a) {{ a = Neg (raw) }},
                        else_branch = e () => (float[1, 2, 2, 2] b) {{ b = Abs (n) }}>
            y = Mul (i, n)
        }}""",
        kept=("Conv", "BatchNormalization"),
    ),
    "weight-read-in-a-branch-only": Case(
        "An initializer that only a branch reads is in use.",
        """g (float[3] x, bool c) => (float[3] y) <float[3] first, float[3] second> {
            y = If (c) <then_branch = t () => (float[3] a) { a = Sub (x, first) },
                        else_branch = e () => (float[3] b) { b = Mul (x, second) }>
        }""",
        kept=("If", "Sub", "Mul"),
    ),
    "branches-with-one-name-for-two-weights": Case(
        "Each branch has names of its own.",
        """g (float[3] x, bool c) => (float[3] y) {
            y = If (c) <
                then_branch = t () => (float[3] a) { w = Constant <value = float[3] {1, 2, 3}> () a = Add (x, w) },
                else_branch = e () => (float[3] b) { w = Constant <value = float[3] {-7, -8, -9}> () b = Add (x, w) }>
        }""",
        kept=("If", "Add"),
    ),
    "fold-inside-a-branch": Case(
        "A rule finds its match inside a branch, with weights from outside.",
        f"""g (float[1, 2, 4, 4] x, bool c) => (float[1, 2, 2, 2] y) {_TWO} {{
            y = If (c) <
                then_branch = t () => (float[1, 2, 2, 2] a) {{
                    s = Conv (x, k)
                    a = BatchNormalization (s, {_NORM})
                }},
                else_branch = e () => (float[1, 2, 2, 2] b) {{ b = Conv (x, k) }}>
        }}""",
        gone=("BatchNormalization",), kept=("Conv", "If"),
    ),
    "condition-that-is-constant": Case(
        "A branch that is always taken brings what it holds along.",
        """g (float[1, 3] x) => (float[3] y) <bool c = {1}> {
            z = If (c) <
                then_branch = t () => (float[3] a) {
                    axes = Constant <value_ints = [0]> ()
                    a = Squeeze (x, axes)
                },
                else_branch = e () => (float[1, 3] b) { b = Identity (x) }>
            y = Relu (z)
        }""",
        gone=("If",), kept=("Squeeze",),
    ),
    "derived-names-are-taken": Case(
        "Every obvious name for a new weight may be in use already, and nodes need no name.",
        f"""g (float[1, 2, 5, 5] x) => (float[1, 4, 3, 3] y, float[1, 2, 3, 3] a, float[1, 2, 3, 3] b)
        <float[2, 2, 3, 3] k, float[2] gain, float[2] shift, float[2] mean, float[2] var, float[1, 2, 3, 3] k_fused,
         float[1, 2, 3, 3] k_1, float[1, 2, 3, 3] wNew, float[1, 2, 3, 3] bNew> {{
            d1 = Conv (x, k_fused)
            d2 = Conv (x, k_1)
            d3 = Conv (x, wNew)
            d4 = Conv (x, bNew)
            y = Concat <axis = 1> (d1, d2, d3, d4)
            s = Conv (x, k)
            a = BatchNormalization (s, {_NORM})
            t = Conv (x, k)
            b = BatchNormalization (t, {_NORM})
        }}""",
        gone=("BatchNormalization",),
    ),
    "input-is-an-output": Case(
        "Inputs and outputs keep their names when an Identity between them goes.",
        """g (float[2, 2] x) => (float[2, 2] same, float[2, 2] r, float[2, 2] copy) {
            same = Identity (x)
            r = Relu (x)
            copy = Identity (r)
        }""",
    ),
    "weight-is-an-output": Case(
        "An initializer that is a graph output stays.",
        "g (float[3] x) => (float[3] y, float[3] table) <float[3] table = {1, 2, 4}> { y = Mul (x, table) }",
    ),
    "custom-operator": Case(
        "An operator nobody knows passes through, with its domain, and what stands before it is folded.",
        f"""g (float[1, 2, 4, 4] x) => (float[1, 2, 2, 2] y) {_TWO} {{
            s = Conv (x, k)
            n = BatchNormalization (s, {_NORM})
            y = com.microsoft.QuickGelu <alpha = 1.2> (n)
        }}""",
        imports={"com.microsoft": 1}, gone=("BatchNormalization",), kept=("QuickGelu",),
    ),
    "local-function": Case(
        "The body of a local function stands for each call.",
        """g (float[3] x) => (float[3] y) {
            a = local.Shifted (x)
            y = local.Shifted (a)
        }
        <opset_import: ["" : 17], domain: "local">
        Shifted (a) => (r) {
            three = Constant <value_int = 3> ()
            wide = Cast <to = 1> (three)
            d = Sub (wide, a)
            r = Mul (d, d)
        }""",
        imports={"local": 1}, fused=("Mul",), gone=("Shifted",),
    ),
    "nameless-nodes": Case(
        "Nodes are told apart by what they are, not by names.",
        f"""g (float[1, 2, 7, 7] x) => (float[1, 2, 1, 1] y) {_TWO} {{
            a = Conv (x, k)
            b = BatchNormalization (a, {_NORM})
            c = Conv (b, k)
            d = BatchNormalization (c, {_NORM})
            e = Conv (d, k)
            y = BatchNormalization (e, {_NORM})
        }}""",
        fused=("Conv",), gone=("BatchNormalization",),
    ),
}  # fmt: skip
