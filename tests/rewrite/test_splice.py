"""What a fusion puts into the graph: order, names, provenance, and what it takes out with it."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest

from onnxfuse.pipeline import optimize

from ..helpers import batchnorm, find, fused, metadata, misses, model, noise, ops, rule_file

WEIGHTS = {"w": noise(3, 2, 3, 3), **batchnorm(3)}
CONV_BN = "g (float[1,2,5,5] x) => (float[1,3,3,3] y) { t = Conv (x, w)  y = BatchNormalization (t, s, o, m, v) }"


def test_the_fused_output_keeps_its_name() -> None:
    result = fused(
        model(CONV_BN.replace("y =", "z =").replace("(t, s, o, m, v)", "(t, s, o, m, v)  y = Neg (z)"), WEIGHTS)
    )
    assert list(find(result.model, "Conv").output) == ["z"]


def test_a_kept_node_keeps_its_name_and_attributes() -> None:
    text = """g (float[1,4,9,9] x) => (float[1,6,h,w] y) {
        [first] t = Conv <strides = [2, 1], pads = [1, 0, 2, 1], dilations = [1, 2], group = 2> (x, w)
        [second] y = BatchNormalization (t, s, o, m, v) }"""
    conv = find(fused(model(text, {"w": noise(6, 2, 3, 3), **batchnorm(6)})).model, "Conv")
    assert conv.name == "first"
    attributes = {attribute.name: onnx.helper.get_attribute_value(attribute) for attribute in conv.attribute}
    assert attributes == {"strides": [2, 1], "pads": [1, 0, 2, 1], "dilations": [1, 2], "group": 2}


def test_provenance() -> None:
    made = model(CONV_BN.replace("t = Conv", "[c] t = Conv").replace("y = Batch", "[b] y = Batch"), WEIGHTS)
    for node, text in zip(made.graph.node, ("of conv", "of norm"), strict=True):
        node.metadata_props.add(key="both", value=text)
        node.metadata_props.add(key=node.name, value="mine")
        node.doc_string = f"doc {text}"
    node = find(fused(made).model, "Conv")
    told = metadata(node)
    assert told.pop("onnxfuse.rule") == "conv-batchnorm"
    assert told.pop("onnxfuse.from") == "c, b"
    assert told == {"both": "of norm", "c": "mine", "b": "mine"}
    assert node.doc_string == "doc of norm"


def test_value_infos_of_values_that_are_gone_go_and_all_others_stay() -> None:
    made = model(CONV_BN.replace("t, s, o, m, v)", "t, s, o, m, v)  u = Neg (y)"), WEIGHTS)
    made.graph.output.append(onnx.helper.make_tensor_value_info("z", 1, [1, 3, 3, 3]))
    made.graph.node.append(onnx.helper.make_node("Abs", ["u"], ["z"]))
    for name in ("t", "u", "nowhere"):
        made.graph.value_info.append(onnx.helper.make_tensor_value_info(name, 1, [1, 3, 3, 3]))
    assert [info.name for info in fused(made).model.graph.value_info] == ["u", "nowhere"]


def test_what_only_fed_the_match_goes_with_it() -> None:
    text = """g (float[2,4] x) => (float[2,4] y) {
        half = Constant <value_float = 0.5> ()  r = Mul (half, half)  n = Neg (x)  d = Dropout (n, r)  y = Abs (d) }"""
    assert ops(fused(model(text)).model) == {"Neg": 1, "Abs": 1}


def test_dead_nodes_elsewhere_are_no_business_of_a_rule() -> None:
    text = "g (float[2,4] x) => (float[2,5] y) { dead = Neg (x)  t = MatMul (x, w)  y = Add (t, b) }"
    made = model(text, {"w": noise(4, 5), "b": noise(5)})
    assert ops(fused(made, ignore=["dead-code"]).model) == {"Neg": 1, "Gemm": 1}


def test_other_nodes_are_untouched_byte_by_byte() -> None:
    text = """g (float[2,4] x, float[2,5] r) => (float[2,5] y, float[2,5] q) {
        [a] n = Neg (x)  t = MatMul (n, w)  s = Add (t, b)  [e] q = Elu <alpha = 0.3> (r)  [z] y = Sub (s, q) }"""
    made = model(text, {"w": noise(4, 5), "b": noise(5)})
    before = {node.name: node.SerializeToString() for node in made.graph.node if node.name}
    result = fused(made).model
    assert {n.name: n.SerializeToString() for n in result.graph.node if n.op_type != "Gemm"} == before
    assert [node.op_type for node in result.graph.node] == ["Neg", "Gemm", "Elu", "Sub"]


PAIR = (
    "(x, a, b) => (y, z) { z = Mul (x, a)  y = Add (z, b) }",
    "(x, a, b) => (y, z) { z = Mul (a, x)  y = Sum (z, b) }",
)


def test_an_output_that_is_read_before_the_last_matched_node(tmp_path: Path) -> None:
    """`z` is read by what the last node needs: the new nodes cannot all stand where the last one stood."""
    rule = rule_file(tmp_path, *PAIR, 'x = "T"\na = "T"\nb = "T"', head="opset = 18\nalso = [13]")
    text = """g (float[2,4] x, float[2,4] a) => (float[2,4] y, float[2,4] q) {
        z = Mul (x, a)  q = Neg (z)  b = Abs (q)  y = Add (z, b) }"""
    result = optimize(model(text), validate=False, rules=[rule], verify_rules=False, select=["test-rule"])
    onnx.checker.check_model(result.model, full_check=True)
    assert ops(result.model) in ({"Mul": 1, "Neg": 1, "Abs": 1, "Sum": 1}, {"Mul": 1, "Neg": 1, "Abs": 1, "Add": 1})


def test_two_outputs_side_by_side(tmp_path: Path) -> None:
    rule = rule_file(tmp_path, *PAIR, 'x = "T"\na = "T"\nb = "T"', head="opset = 18\nalso = [13]")
    text = """g (float[2,4] x, float[2,4] a, float[2,4] b) => (float[2,4] y, float[2,4] z) {
        z = Mul (x, a)  y = Add (z, b) }"""
    result = fused(model(text), rules=[rule], select=["test-rule"])
    assert ops(result.model) == {"Mul": 1, "Sum": 1}


def test_a_fusion_that_would_change_the_shape_is_refused(tmp_path: Path) -> None:
    """No guard of this rule looks at shapes; the check of what comes out does."""
    rule = rule_file(
        tmp_path,
        "(x) => (y) { y = Softsign (x) }",
        "(x) => (y) { y = ReduceSum (x) }",
        'x = "T"',
        head="opset = 18\nalso = [1, 13]",
    )
    result = fused(model("g (float[2,4] x) => (float[2,4] y) { y = Softsign (x) }"), rules=[rule])
    assert ops(result.model) == {"Softsign": 1}
    assert "shape of 'y' would change from [2, 4] to [1, 1]" in misses(result, "test-rule")[0]


def test_a_fusion_that_would_change_the_type_is_refused(tmp_path: Path) -> None:
    rule = rule_file(
        tmp_path,
        "(x) => (y) { y = Softsign (x) }",
        "(x) => (y) { y = Cast <to: int = 11> (x) }",
        'x = "T"',
        head="opset = 18\nalso = [1, 13]",
    )
    result = fused(model("g (float[2,4] x) => (float[2,4] y) { y = Softsign (x) }"), rules=[rule])
    assert misses(result, "test-rule") == ["'y' would change its element type"]


def test_arguments_become_attributes_where_the_opset_says_so(tmp_path: Path) -> None:
    """The rewrite is written at opset 18, where the axes of a mean are an input; at 13 they are an attribute."""
    rule = rule_file(
        tmp_path,
        "(x) => (y) { axes = Constant <value_ints: ints = @axes> ()  y = ReduceL1 (x, axes) }",
        "(x) => (y) { axes = Constant <value_ints: ints = @axes> ()  a = Abs (x)  y = ReduceSum (a, axes) }",
        'x = "T"\n[attributes]\naxes = { type = "ints" }',
        head="opset = 18\nalso = [11, 13]",
    )
    made = model("g (float[2,4] x) => (float[2,1] y) { y = ReduceL1 <axes = [1]> (x) }", opset=11)
    result = fused(made, rules=[rule]).model
    assert [attribute.name for attribute in find(result, "ReduceSum").attribute] == ["axes"]
    assert len(find(result, "ReduceSum").input) == 1
    made = model("g (float[2,4] x) => (float[2,1] y) { y = ReduceL1 <axes = [1]> (x) }", opset=13)
    result = fused(made, rules=[rule]).model
    assert len(find(result, "ReduceSum").input) == 2


@pytest.mark.parametrize("given", ["w", "k"])
def test_a_fusion_of_constants_alone_still_gives_its_output(given: str) -> None:
    """A Dropout of a constant is not constant by itself, but what takes its place could be folded to nothing."""
    text = """g (float[2] x) => (float[2] y, float[2] z) <float[2] w = {1, 2}> {
        k = Neg (w)  d = Dropout (%s)  y = Add (x, d)  z = Dropout (w) }"""
    assert "Dropout" not in ops(fused(model(text % given)).model)
