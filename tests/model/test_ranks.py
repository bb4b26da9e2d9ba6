"""Ranks that follow from the length of a computed shape."""

from __future__ import annotations

import pytest
from onnx import parser

from onnxfuse.model import ranks, shapes

HEAD = '<ir_version: 8, opset_import: ["" : 13]> g '


def dims(text: str, name: str) -> shapes.TypeInfo:
    inferred = shapes.infer(parser.parse_model(HEAD + text))
    return shapes.known_types(inferred.graph).get(name, shapes.UNKNOWN)


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
        found = dims(text, name)
        assert found.elem_type == 1 and found.dims is not None and len(found.dims) == rank


def test_one_rank_leads_to_the_next() -> None:
    text = """(float[n, m] x, int64[3] first) => (float z) {
        y = Reshape (x, first)
        second = Shape (y)
        flat = Reshape (x, second)
        z = Relu (flat)
    }"""
    assert dims(text, "z").dims is not None


def test_inside_a_branch_with_a_shape_from_outside() -> None:
    text = """(float[n, m] x, bool c, int64[2] shape) => (float z) {
        z = If (c) <then_branch = t () => (float a) { u = Reshape (x, shape) a = Relu (u) },
                    else_branch = e () => (float b) { b = Identity (x) }>
    }"""
    inferred = shapes.infer(parser.parse_model(HEAD + text))
    branch = next(a.g for a in inferred.graph.node[0].attribute if a.name == "then_branch")
    assert len(shapes.known_types(branch)["a"].dims or ()) == 2


@pytest.mark.parametrize("shape", ["int64[k] shape", "int64 shape"])
def test_a_shape_of_unknown_length_tells_nothing(shape: str) -> None:
    assert dims(f"(float[n, m] x, {shape}) => (float y) {{ y = Reshape (x, shape) }}", "y").dims is None


def test_nothing_is_said_twice() -> None:
    text = HEAD + "(float[n, m] x, int64[3] shape) => (float y) { y = Reshape (x, shape) }"
    assert not ranks.declare(shapes.infer(parser.parse_model(text)))
