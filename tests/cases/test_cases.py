"""Each tiny model keeps what it computes, what it offers to its callers, and the law it was written for."""

from __future__ import annotations

import pytest
from onnx import TensorProto, helper

from onnxfuse import optimize
from tests.cases import convolutions, norms, products, scopes, structure
from tests.cases.case import Case
from tests.judge import Array, run

CASES: dict[str, Case] = {
    **convolutions.CASES, **norms.CASES, **products.CASES, **scopes.CASES, **structure.CASES
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_case(name: str) -> None:
    CASES[name].judge()


def test_a_recipe_stays_small() -> None:
    """The result of `recipe-of-a-large-constant` holds no constant of 4 MB."""
    before = CASES["recipe-of-a-large-constant"].build()
    assert optimize(before, validate=False).model.ByteSize() <= before.ByteSize()


def test_a_sparse_weight_stays() -> None:
    """The law: the only weight of a model may be sparse."""
    values = helper.make_tensor("w", TensorProto.FLOAT, [2], [1.5, -2.0])
    places = helper.make_tensor("w_indices", TensorProto.INT64, [2], [1, 6])
    info = helper.make_tensor_value_info
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["y"])], "g",
        [info("x", TensorProto.FLOAT, [2, 4])], [info("y", TensorProto.FLOAT, [2, 2])],
        sparse_initializer=[helper.make_sparse_tensor(values, places, [4, 2])],
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    feeds: dict[str, Array] = Case("", "").draw(model, 2)
    (want,), (got,) = (run(made, feeds) for made in (model, optimize(model, provider="cpu").model))
    assert (got == want).all() and want.any()
