"""Nodes are counted in every graph that a model holds."""

from __future__ import annotations

import onnx
import onnx.parser
import pytest
from onnx import TensorProto, helper

from onnxfuse.report import default_opset, survey_ops


def _model(text: str) -> onnx.ModelProto:
    return onnx.parser.parse_model(text)


_NESTED = """
<ir_version: 8, opset_import: ["" : 17, "com.microsoft" : 1, "local" : 1]>
main (bool c, float[N] x) => (float[N] y)
{
    a = Relu (x)
    b = com.microsoft.Gelu (a)
    y = If (c) <
        then_branch = inner () => (float[N] t) { u = Relu (b)  t = Relu (u) },
        else_branch = other () => (float[N] e) {
            e = If (c) <
                then_branch = deep () => (float[N] p) { p = Neg (b) },
                else_branch = deeper () => (float[N] q) { q = local.Twice (b) }
            >
        }
    >
}
<domain: "local", opset_import: ["" : 17]>
Twice (v) => (w) { w = Add (v, v) }
"""


def test_counts_nested_graphs_functions_and_domains() -> None:
    expected = {"Add": 1, "If": 2, "Neg": 1, "Relu": 3, "com.microsoft.Gelu": 1, "local.Twice": 1}
    assert survey_ops(_model(_NESTED)) == expected


def test_names_are_sorted() -> None:
    assert list(survey_ops(_model(_NESTED))) == sorted(survey_ops(_model(_NESTED)))


def test_both_spellings_of_the_default_domain_are_one() -> None:
    nodes = [helper.make_node("Relu", ["x"], ["y"], domain=domain) for domain in ("", "ai.onnx")]
    graph = helper.make_graph(nodes, "g", [], [])
    assert survey_ops(helper.make_model(graph)) == {"Relu": 2}


def test_counts_lists_of_graphs() -> None:
    inner = helper.make_graph([helper.make_node("Neg", ["x"], ["y"])], "inner", [], [])
    node = helper.make_node("Many", ["x"], ["y"], domain="custom")
    node.attribute.append(helper.make_attribute("graphs", [inner, inner]))
    assert survey_ops(helper.make_model(helper.make_graph([node], "g", [], []))) == {"Neg": 2, "custom.Many": 1}


def test_deeply_nested_graphs() -> None:
    graph = helper.make_graph([helper.make_node("Neg", ["x"], ["y"])], "g", [], [])
    for _ in range(20):
        node = helper.make_node("Loop", ["n", "c"], ["y"], body=graph)
        graph = helper.make_graph([node], "g", [], [])
    assert survey_ops(helper.make_model(graph)) == {"Loop": 20, "Neg": 1}


def test_training_graphs_do_not_count() -> None:
    model = _model(_NESTED)
    expected = survey_ops(model)
    training = model.training_info.add()
    training.algorithm.node.append(helper.make_node("Sub", ["x", "x"], ["z"]))
    assert survey_ops(model) == expected


@pytest.mark.parametrize(("domain", "expected"), [("", 17), ("ai.onnx", 17), ("com.microsoft", None)])
def test_default_opset(domain: str, expected: int | None) -> None:
    value = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1])
    graph = helper.make_graph([], "g", [value], [value])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid(domain, 17)])
    assert default_opset(model) == expected
