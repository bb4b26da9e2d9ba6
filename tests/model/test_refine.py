"""What computed shapes tell: ranks, dims and elements that onnx's own inference leaves open."""

from __future__ import annotations

import pytest
from onnx import parser

from onnxfuse.model.editable import EditableModel
from onnxfuse.model.file import from_proto
from onnxfuse.model.graph import Value

HEAD = '<ir_version: 8, opset_import: ["" : 13]> g '


def value(text: str, name: str) -> Value:
    """Return a value of the main graph, or of the first nested one."""
    model = EditableModel(from_proto(parser.parse_model(HEAD + text)))
    found = next(scope.values[name] for scope in reversed(model.scopes) if name in scope.values)
    assert isinstance(found, Value)
    return found


@pytest.mark.parametrize(
    ("node", "rank"),
    [
        ("y = Reshape (x, shape)", 3),
        ("y = Expand (x, shape)", 3),
        ("y = Expand (deep, shape)", 4),
        ("y = ConstantOfShape (shape)", 3),
    ],
)
def test_a_computed_shape_of_known_length_tells_the_rank(node: str, rank: int) -> None:
    text = f"(float[n, m] x, float[1, 1, 1, 1] deep, int64[3] shape) => (float z) {{ {node} z = Relu (y) }}"
    for name in ("y", "z"):  # and what is computed from it has that rank too
        found = value(text, name)
        assert found.elem_type == 1 and found.dims is not None and len(found.dims) == rank


def test_one_rank_leads_to_the_next() -> None:
    text = """(float[n, m] x, int64[3] first) => (float z) {
        y = Reshape (x, first)
        second = Shape (y)
        flat = Reshape (x, second)
        z = Relu (flat)
    }"""
    assert len(value(text, "z").dims or ()) == 3


def test_inside_a_branch_with_a_shape_from_outside() -> None:
    text = """(float[n, m] x, bool c, int64[2] shape) => (float z) {
        z = If (c) <then_branch = t () => (float a) { u = Reshape (x, shape) a = Relu (u) },
                    else_branch = e () => (float b) { b = Identity (x) }>
    }"""
    assert len(value(text, "u").dims or ()) == 2


@pytest.mark.parametrize("shape", ["int64[k] shape", "int64 shape"])
def test_a_shape_of_unknown_length_tells_nothing(shape: str) -> None:
    text = f"(float[n, m] x, {shape}) => (float z) {{ y = Reshape (x, shape) z = Relu (y) }}"
    assert value(text, "y").dims is None


SHAPES = """
    <int64 i0 = {0}, int64 i1 = {1}, int64[1] zero = {0},
     int64[1] four = {4}, int64[1] eight = {8}, int64[1] all = {-1}>
"""


@pytest.mark.parametrize(
    ("lines", "dims"),
    [
        # n and m are read off the input, joined with numbers, and come back as dims of the result
        ("n = Gather (s, i0) n1 = Unsqueeze (n, zero) t = Concat <axis = 0> (n1, four, eight)", ("n", 4, 8)),
        ("n = Gather (s, zero) t = Concat <axis = 0> (n, four, all)", ("n", 4, 8)),
        ("n = Slice (s, zero, four) t = Identity (n)", ("n", 32)),
        ("n = Gather (s, i0) p = Mul (n, n) t = Unsqueeze (p, zero)", ("n\N{MULTIPLICATION SIGN}n",)),
        ("n = Gather (s, i0) m = Gather (s, i1) p = Mul (n, m) t = Unsqueeze (p, zero)", (None,)),
        ("t = Concat <axis = 0> (four, all)", (4, None)),
        (
            "n = Gather (s, zero) k = Cast <to = 6> (n) j = Cast <to = 7> (k) t = Concat <axis = 0> (j, eight, all)",
            ("n", 8, 4),
        ),
    ],
)
def test_dims_follow_from_the_elements_of_a_computed_shape(lines: str, dims: tuple[object, ...]) -> None:
    text = f"(float[n, 32] x) => (float y) {SHAPES} {{ s = Shape (x) {lines} u = Reshape (x, t) y = Relu (u) }}"
    assert value(text, "u").dims == dims


def test_a_known_dim_of_a_partly_known_shape_is_a_constant() -> None:
    text = f"(float[n, 32] x) => (int64 y) {SHAPES} {{ s = Shape (x) y = Gather (s, i1) k = Gather (s, i0) }}"
    assert value(text, "y").constant and value(text, "y").elements == (32,)
    assert not value(text, "k").constant and value(text, "k").elements == ("n",)


def test_what_an_inner_value_is_declared_to_be_does_not_freeze_a_dynamic_dim() -> None:
    model = parser.parse_model(
        HEAD + "(float[n, 4] x) => (float[n, 4] y) { r = Relu (x) s = Shape (r) y = Reshape (r, s) }"
    )
    info = model.graph.value_info.add(name="r")
    info.type.tensor_type.elem_type = 1
    for size in (1, 4):  # stale: from when the batch was 1
        info.type.tensor_type.shape.dim.add(dim_value=size)
    editable = EditableModel(from_proto(model))
    assert editable.scopes[0].values["r"].dims == ("n", 4)
    shape = editable.scopes[0].values["s"]
    assert not shape.constant


def test_what_a_computed_shape_tells_reaches_the_bodies_of_functions() -> None:
    text = """<ir_version: 8, opset_import: ["" : 13, "local" : 1]> g (float[n, 6] x, int64[3] shape) => (float z) {
        w = Reshape (x, shape)  z = local.F (w) }
        <domain: "local", opset_import: ["" : 13]> F (p) => (q) { q = Relu (p) }"""
    dims = EditableModel(from_proto(parser.parse_model(text))).scopes[-1].values["q"].dims
    assert dims is not None and len(dims) == 3


def test_inside_a_function_and_a_branch_in_it() -> None:
    """The graphs of a function body are not those of the main graph, although they have values of the same names."""
    text = """<ir_version: 8, opset_import: ["" : 13, "local" : 1]>
    g (float[2, 6] x, bool c) => (float z) {
        shape = Constant <value_ints: ints = [3, 4]> ()
        r = Reshape (x, shape)
        z = local.F (r, c)
    }
    <domain: "local", opset_import: ["" : 13]>
    F (r, c) => (z) {
        shape = Constant <value_ints: ints = [2, 2, 3]> ()
        u = Reshape (r, shape)
        z = If (c) <then_branch = t () => (float[k] a) { one = Constant <value_ints: ints = [12]> ()
                                                      v = Reshape (u, one)  a = Relu (v) },
                    else_branch = e () => (float[k] b) { b = Squeeze (r) }>
    }"""
    model = EditableModel(from_proto(parser.parse_model(text)))
    (body,) = (scope for scope in model.scopes if scope.is_function)
    assert body.values["u"].dims == (2, 2, 3)
