"""Sizes: two of every open dimension that takes two, and what the original refuses is replaced."""

from __future__ import annotations

import numpy as np
import pytest

from onnxfuse.errors import OriginalFailsError
from onnxfuse.model.file import from_proto
from onnxfuse.validate import Validation, validate
from onnxfuse.validate.sizes import evaluate, symbols_of
from tests.validate.build import EMBEDDER, model, noise, proto


def itself(text: str, weights: dict[str, np.ndarray] | None = None) -> Validation:
    file = model(text, weights)
    found = validate(file, file, provider="cpu")
    assert found.ok
    return found


def shapes(found: Validation, name: str) -> set[tuple[int, ...]]:
    return {run.shapes[name] for run in found.runs}


def test_every_dimension_has_two_sizes_shared_by_its_name() -> None:
    found = itself(EMBEDDER, {"table": noise(11, 4)})
    assert len(shapes(found, "input_ids")) == 2
    assert shapes(found, "input_ids") == shapes(found, "attention_mask")
    first, second = shapes(found, "input_ids")
    assert first[0] != second[0] and first[1] != second[1]
    assert 1 in (first[0], second[0])
    assert found.note == ""


def test_static_shapes_get_two_draws() -> None:
    found = itself("g (float[3] x) => (float[3] y) { y = Relu (x) }")
    assert [(run.ort_optimizations, run.seed) for run in found.runs] == [("off", 0), ("off", 1), ("all", 0), ("all", 1)]


def test_no_inputs_at_all() -> None:
    assert itself("g () => (float[2] y) { y = Identity (c) }", {"c": noise(2)}).runs


def test_the_size_a_weight_demands_is_found() -> None:
    found = itself("g (float[n, k] x) => (float[n, 5] y) { y = MatMul (x, w) }", {"w": noise(37, 5)})
    assert {shape[1] for shape in shapes(found, "x")} == {37}
    assert "'k' runs at 37 only" in found.note
    channels = itself("g (float[n, c, h, w] x) => (float[n, m, a, b] y) { y = Conv (x, k) }", {"k": noise(2, 5, 3, 3)})
    assert {shape[1] for shape in shapes(channels, "x")} == {5}


def test_an_only_size_that_no_weight_tells_is_found() -> None:
    text = """g (float[batch, t] x) => (float[batch, 8, 32] y) {
        s = Constant <value = int64[3] {-1, 8, 32}> () r = Reshape (x, s)
        b = Shape <start = 0, end = 1> (x) e = Constant <value = int64[2] {8, 32}> () want = Concat <axis = 0> (b, e)
        y = Reshape (r, want) }"""
    found = itself(text)
    assert {shape[1] for shape in shapes(found, "x")} == {256}
    assert {shape[0] for shape in shapes(found, "x")} == {1, 2} or len(shapes(found, "x")) == 2


def test_unnamed_dims_that_are_one_move_together() -> None:
    found = itself("g (float[?, 4] a, float[3, ?, 4] b) => (float[x, y, z] y) { c = Add (a, b) y = Relu (c) }")
    assert all(
        run.shapes["a"][0] == run.shapes["b"][1] or 1 in (run.shapes["a"][0], run.shapes["b"][1]) for run in found.runs
    )


def test_a_cache_and_its_total_length() -> None:
    text = """g (float[batch, 2, past_length, 4] past, float[batch, 2, sequence, 4] now,
                 int64[batch, total_length] attention_mask)
              => (float[batch, 2, a, 4] y) {
        all = Concat <axis = 2> (past, now) f = Cast <to = 1> (attention_mask)
        axes = Constant <value = int64[2] {1, 3}> () m = Unsqueeze (f, axes) y = Mul (all, m) }"""
    found = itself(text)
    for run in found.runs:
        assert run.shapes["attention_mask"][1] == run.shapes["past"][2] + run.shapes["now"][2]
    assert len(shapes(found, "past")) == 2 and found.note == ""


def test_a_scalar_that_selects_a_branch_takes_both() -> None:
    text = """g (float[4] x, int64 sr) => (float[4] y) {
        c = Constant <value = int64 {16000}> () is = Equal (sr, c)
        y = If (is) <
            then_branch = t () => (float[4] a) { a = Relu (x) },
            else_branch = e () => (float[4] b) { b = Neg (x) }> }"""
    assert itself(text).runs
    broken = text.replace("b = Neg (x)", "b = Abs (x)")
    assert not validate(model(text), model(broken), provider="cpu").ok
    assert not validate(model(text), model(text.replace("a = Relu (x)", "a = Abs (x)")), provider="cpu").ok


def test_an_input_without_a_rank() -> None:
    file = proto("g (float[n] x) => (float[n] y) { y = Conv (x, w) }", {"w": noise(3, 2, 3, 3)})
    for value in (*file.graph.input, *file.graph.output):
        value.type.tensor_type.ClearField("shape")
    found = validate(from_proto(file), from_proto(file), provider="cpu")
    assert found.ok and {len(shape) for shape in shapes(found, "x")} == {4}


def test_a_promised_batch_that_takes_only_one_is_the_originals_failure() -> None:
    text = "g (float[batch, 6] x) => (float[1, 6] y) { s = Constant <value = int64[2] {1, 6}> () y = Reshape (x, s) }"
    with pytest.raises(OriginalFailsError, match="'batch' takes no size but 1"):
        itself(text)


def test_a_model_that_never_runs() -> None:
    text = "g (float[n, 3] x) => (float[n, 2] y) { y = MatMul (x, w) }"
    with pytest.raises(OriginalFailsError, match=r"MatMul.*--no-validate") as caught:
        validate(model(text, {"w": noise(4, 2)}), model(text, {"w": noise(4, 2)}), provider="cpu")
    assert "\n" not in str(caught.value) and caught.value.exit_code == 1


@pytest.mark.parametrize(
    ("dim", "symbols", "size"),
    [
        ("sequence", ["sequence"], 7),
        ("past + sequence", ["past", "sequence"], 12),
        ("past+1", ["past"], 6),
        ("2*sequence - 1", ["sequence"], 13),
        ("sequence//2", ["sequence"], 3),
        ("p2o.DynamicDimension.0", ["p2o.DynamicDimension.0"], 9),
        ("floor(sequence/2)", ["floor(sequence/2)"], 9),
        ("unk__7", ["unk__7"], 9),
        ("batch-size", ["batch", "size"], 0),
    ],
)
def test_dims_that_are_expressions(dim: str, symbols: list[str], size: int) -> None:
    assert symbols_of(dim) == symbols
    sizes = {"sequence": 7, "past": 5, "batch": 2, "size": 3}
    assert evaluate(dim, sizes if set(symbols) <= set(sizes) else {dim: 9}) == size
