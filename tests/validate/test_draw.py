"""Drawn inputs make sense for what the graph does with them."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest

from onnxfuse.model.file import from_proto
from onnxfuse.validate.bodies import Bodies
from onnxfuse.validate.draw import CannotDraw
from onnxfuse.validate.inputs import Inputs, read_inputs
from onnxfuse.validate.sessions import CPU, open_session
from tests.validate.build import EMBEDDER, model, noise


def read(text: str, weights: dict[str, np.ndarray] | None = None, **versions: int) -> Inputs:
    file = model(text, weights, **versions)
    return read_inputs(file, open_session(file, optimized=False, provider=CPU).inputs, Bodies(file))[0]


def drawn(text: str, weights: dict[str, np.ndarray] | None = None, seed: int = 0, **versions: int) -> dict[str, Any]:
    inputs = read(text, weights, **versions)
    return inputs.draw({choice.name: choice.candidates[0] for choice in inputs.variables}, seed)


def test_ids_lie_inside_the_table_and_masks_end_in_padding() -> None:
    feeds = drawn(EMBEDDER, {"table": noise(11, 4)})
    assert feeds["input_ids"].min() >= 0 and feeds["input_ids"].max() < 11
    assert len(np.unique(feeds["input_ids"])) > 3
    mask = feeds["attention_mask"]
    assert set(np.unique(mask)) == {0, 1} and mask[:, 0].all() and mask.mean() > 0.5
    assert (np.diff(mask, axis=1) <= 0).all()


@pytest.mark.parametrize(
    "way",
    [
        "i = Identity (ids)",
        "i = Cast <to = 6> (ids)",
        "s = Constant <value = int64[1] {-1}> () i = Reshape (ids, s)",
        "z = Constant <value = int64[1] {0}> () u = Unsqueeze (ids, z) i = Squeeze (u, z)",
        "zero = Constant <value = int64 {0}> () n = Equal (ids, zero) p = Where (n, zero, ids) i = Identity (p)",
    ],
)
def test_ids_are_followed_through_what_only_moves_them(way: str) -> None:
    ids = drawn(
        f"g (int64[5, 40] ids) => (float y) {{ {way} r = Gather (table, i) y = ReduceSum <keepdims = 0> (r) }}",
        {"table": noise(7, 2)},
    )["ids"]
    assert ids.min() >= 0 and ids.max() == 6


def test_ids_with_an_offset_stay_inside() -> None:
    text = """g (int64[50] ids) => (float[a, b] y) {
        two = Constant <value = int64 {2}> () i = Add (ids, two) y = Gather (t, i) }"""
    ids = drawn(text, {"t": noise(10, 2)})["ids"]
    assert ids.min() == 0 and ids.max() == 7


def test_the_smallest_of_several_tables_bounds() -> None:
    text = "g (int64[60] ids) => (float[60, 2] y) { a = Gather (big, ids) b = Gather (small, ids) y = Add (a, b) }"
    assert drawn(text, {"big": noise(100, 2), "small": noise(5, 2)})["ids"].max() == 4


def test_ids_are_followed_into_branches_and_functions() -> None:
    text = """
    g (int64[30] ids, bool c) => (float[a, b] y) {
        y = If (c) <
            then_branch = yes () => (float[a, b] t) { t = Gather (table, ids) },
            else_branch = no () => (float[a, b] e) { e = Gather (table, ids) }
        >
    }
    """
    assert drawn(text, {"table": noise(6, 2)})["ids"].max() == 5
    call = """
    g (int64[30] ids) => (float[a, b] y) { t = Constant <value = float[3, 1] {1., 2., 3.}> () y = f.look (t, ids) }
    <domain: "f", opset_import: ["": 20]> look (table, where) => (out) {
        same = Identity (where) out = Gather (table, same) }
    """
    header = '<ir_version: 9, opset_import: ["": 20, "f": 1]>'
    file = from_proto(onnx.parser.parse_model(header + call))
    inputs = read_inputs(file, open_session(file, optimized=False, provider=CPU).inputs, Bodies(file))[0]
    assert inputs.draw({}, 0)["ids"].max() == 2


def test_one_hot_depth_bounds() -> None:
    text = """g (int64[90] ids) => (float[a, b] y) {
        depth = Constant <value = int64 {9}> () values = Constant <value = float[2] {0., 1.}> ()
        y = OneHot (ids, depth, values) }"""
    ids = drawn(text)["ids"]
    assert ids.min() == 0 and ids.max() == 8


def test_one_minus_x_is_a_mask() -> None:
    text = """g (int64[4, 20] padding) => (float[4, 20] y) {
        f = Cast <to = 1> (padding) one = Constant <value = float {1.0}> () inverse = Sub (one, f)
        big = Constant <value = float {-10000.0}> () y = Mul (inverse, big) }"""
    assert set(np.unique(drawn(text)["padding"])) == {0, 1}


def test_position_ids_count_up() -> None:
    text = "g (int64[2, 6] position_ids) => (float[2, 6, 3] y) { y = Gather (table, position_ids) }"
    assert drawn(text, {"table": noise(4, 3)})["position_ids"].tolist() == [[0, 1, 2, 3, 0, 1]] * 2


def test_a_scalar_is_given_the_value_it_is_compared_with() -> None:
    text = "g (int64 sr) => (bool y) { c = Constant <value = int64 {16000}> () y = Equal (sr, c) }"
    (choice,) = read(text).variables
    assert choice.candidates[0] == 16000 and 8000 in choice.candidates


def test_floats_are_of_unit_scale_with_both_signs() -> None:
    values = drawn("g (float[40, 50] x) => (float[40, 50] y) { y = Relu (x) }")["x"]
    assert values.dtype == np.float32 and abs(values.std() - 1) < 0.1 and values.min() < 0 and (values != 0).all()
    few = drawn("g (float[2] x) => (float[2] y) { y = Relu (x) }")["x"]
    assert few[0] > 0 > few[1]


def test_what_goes_into_a_logarithm_is_positive() -> None:
    assert drawn("g (float[90] x) => (float[90] y) { y = Log (x) }")["x"].min() > 0


@pytest.mark.parametrize(
    ("kind", "dtype"),
    [
        ("float16", "float16"),
        ("bfloat16", "bfloat16"),
        ("double", "float64"),
        ("bool", "bool"),
        ("uint8", "uint8"),
        ("int8", "int8"),
        ("int32", "int32"),
        ("string", "object"),
        ("float8e4m3fn", "float8_e4m3fn"),
    ],
)
def test_every_element_type(kind: str, dtype: str) -> None:
    values = drawn(f"g ({kind}[4, 4] x) => ({kind}[4, 4] y) {{ y = Identity (x) }}")["x"]
    assert values.dtype.name == dtype and len(np.unique(values.astype(object))) > 1


def test_strings_come_from_the_vocabulary() -> None:
    text = """g (string[20] x) => (int64[20] y) {
        y = ai.onnx.ml.LabelEncoder <keys_strings = ["cat", "dog"], values_int64s = [0, 1]> (x) }"""
    assert set(drawn(text)["x"]) == {"cat", "dog"}


def test_sequences_and_optionals() -> None:
    parts = drawn("g (seq(float[2, 3]) x) => (float[a, b] y) { y = ConcatFromSequence <axis = 0> (x) }")["x"]
    assert [part.shape for part in parts] == [(2, 3), (2, 3)] and not np.array_equal(parts[0], parts[1])
    assert drawn("g (optional(float[2]) x) => (bool y) { y = OptionalHasElement (x) }")["x"].shape == (2,)


def test_a_type_without_values_is_named() -> None:
    with pytest.raises(CannotDraw, match=r"'x'.*int4"):
        drawn("g (int4[4] x) => (int8[4] y) { y = Cast <to = 3> (x) }", opset=21, ir=10)


def test_overridable_initializers_keep_their_defaults() -> None:
    text = "g (float[2] x, float[2] w) => (float[2] y) { y = Add (x, w) }"
    assert set(drawn(text, {"w": noise(2)})) == {"x"}


def test_same_seed_same_bytes_whatever_else_is_fed() -> None:
    alone = "g (float[9] x) => (float[9] y) { y = Relu (x) }"
    beside = "g (float[3] w, float[9] x) => (float[9] y, float[3] z) { y = Relu (x) z = Relu (w) }"
    assert drawn(alone)["x"].tobytes() == drawn(beside)["x"].tobytes()
    assert drawn(alone)["x"].tobytes() != drawn(alone, seed=1)["x"].tobytes()
