"""`optimize` as a whole: opsets, the choice of rules, what is written and when, what is never touched."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest
from onnx import parser

import onnxfuse
from onnxfuse.errors import InputError, OpsetError, OriginalFailsError, OutputError, UsageError, ValidationError

from .helpers import assert_same, batchnorm, fused, metadata, model, noise, ops, rule_file

LAYERNORM = """g (float[n,4] x) => (float[n,4] y) <float two = {2.0}, float eps = {0.01}> {
    m = ReduceMean <axes = [-1]> (x)  d = Sub (x, m)  p = Pow (d, two)  v = ReduceMean <axes = [-1]> (p)
    e = Add (v, eps)  r = Sqrt (e)  q = Div (d, r)  y = Mul (q, s) }"""
GELU = """g (float[2,4] x) => (float[2,4] y) <float r = {1.4142135}, float one = {1.0}, float half = {0.5}> {
    u = Div (x, r)  e = Erf (u)  f = Add (e, one)  p = Mul (x, f)  y = Mul (p, half) }"""
CONV_BN = "g (float[1,2,5,5] x) => (float[1,3,3,3] y) { t = Conv (x, w)  y = BatchNormalization (t, s, o, m, v) }"
NOTHING = "g (float[2] x) => (float[2] y) { y = Abs (x) }"


def layernorm(opset: int = 13) -> onnx.ModelProto:
    return model(LAYERNORM, {"s": noise(4)}, opset=opset)


def conv_bn(opset: int = 18, ir: int = 9) -> onnx.ModelProto:
    return model(CONV_BN, {"w": noise(3, 2, 3, 3), **batchnorm(3)}, opset=opset, ir=ir)


def opset_of(proto: onnx.ModelProto) -> int:
    return int(next(entry.version for entry in proto.opset_import if not entry.domain))


# Opsets


def test_auto_raises_to_what_the_fusions_need_and_no_further() -> None:
    result = fused(layernorm(13))
    assert opset_of(result.model) == 17
    assert ops(result.model) == {"LayerNormalization": 1}
    assert "opset 13 -> 17" in str(result.report.to_dict())


def test_auto_keeps_the_opset_where_no_fusion_needs_another() -> None:
    assert opset_of(fused(conv_bn(opset=11)).model) == 11


def test_auto_with_several_fusions() -> None:
    both = """g (float[2,4] x) => (float[2,4] y) <float two = {2.0}, float eps = {0.01}, float r = {1.4142135},
            float one = {1.0}, float half = {0.5}> {
        m = ReduceMean <axes = [-1]> (x)  d = Sub (x, m)  p = Pow (d, two)  v = ReduceMean <axes = [-1]> (p)
        e = Add (v, eps)  q = Sqrt (e)  n = Div (d, q)
        u = Div (n, r)  f = Erf (u)  h = Add (f, one)  k = Mul (n, h)  y = Mul (k, half) }"""
    result = fused(model(both, opset=13))
    assert ops(result.model) == {"LayerNormalization": 1, "Gelu": 1}
    assert opset_of(result.model) == 20


def test_keep_loses_only_the_rules_that_need_more() -> None:
    text = LAYERNORM.replace("(float[n,4] y)", "(float[n,5] z)").replace("y = Mul (q, s) }", "y = Mul (q, s)  "
                     "t = MatMul (y, w)  z = Add (t, b) }")  # fmt: skip
    proto = model(text, {"s": noise(4), "w": noise(4, 5), "b": noise(5)}, opset=13)
    result = fused(proto, opset="keep")
    assert opset_of(result.model) == 13
    assert "LayerNormalization" not in ops(result.model)
    assert ops(result.model)["Gemm"] == 1
    assert any("needs opset 17, the model has 13" in miss.reason for miss in result.report.near_misses)


@pytest.mark.parametrize("wanted", [13, 15, 18, 21])
def test_a_number_sets_the_opset(wanted: int) -> None:
    result = fused(layernorm(13), opset=wanted)
    assert opset_of(result.model) == wanted
    assert ("LayerNormalization" in ops(result.model)) == (wanted >= 17)


def test_a_lower_opset_is_refused() -> None:
    with pytest.raises(OpsetError, match="13"):
        onnxfuse.optimize(layernorm(13), opset=11, validate=False)


# The choice of rules


def test_select_and_ignore() -> None:
    assert ops(fused(conv_bn(), select=["conv-batchnorm"]).model) == {"Conv": 1}
    assert ops(fused(conv_bn(), select=["conv*", "gelu-erf"]).model) == {"Conv": 1}
    assert not fused(conv_bn(), select=["gelu-*"]).fusions
    assert not fused(conv_bn(), ignore=["conv-batchnorm"]).fusions
    assert not fused(conv_bn(), select=["conv-*"], ignore=["*-batchnorm"]).fusions


def test_clean_up_steps_are_chosen_like_rules() -> None:
    proto = model("g (float[2] x) => (float[2] y) { a = Identity (x)  b = Neg (a)  y = Abs (b) }")
    assert ops(fused(proto).model) == {"Neg": 1, "Abs": 1}
    assert not fused(proto, ignore=["identity"]).fusions
    assert not fused(proto, select=["conv-batchnorm"]).fusions


@pytest.mark.parametrize("option", ["select", "ignore"])
def test_an_unknown_rule_is_an_error_with_a_suggestion(option: str) -> None:
    with pytest.raises(UsageError, match=r"'conv-batchnrom'.*did you mean 'conv-batchnorm'"):
        onnxfuse.optimize(conv_bn(), validate=False, **{option: ["conv-batchnrom"]})  # type: ignore[arg-type]


def test_further_rules_and_a_replaced_one(tmp_path: Path) -> None:
    swap = ("(x) => (y) { y = Sinh (x) }", "(x) => (y) { y = Cosh (x) }", 'x = "T"')
    rule_file(tmp_path, *swap, name="mine", head="opset = 18\nalso = [9]")
    result = onnxfuse.optimize(
        model("g (float[2] x) => (float[2] y) { y = Sinh (x) }"), rules=[tmp_path], verify_rules=False, validate=False
    )
    assert [fusion.rule for fusion in result.fusions] == ["mine"]
    own = rule_file(tmp_path, *swap, name="conv-batchnorm", head="opset = 18")
    assert not onnxfuse.optimize(conv_bn(), rules=[own], verify_rules=False, validate=False).fusions


# Input and output


def saved(folder: Path, proto: onnx.ModelProto, name: str = "m.onnx") -> Path:
    path = folder / name
    # Fields in an order that no serializer writes, to see that the bytes are not written anew.
    path.write_bytes(proto.SerializeToString() + b"\x12\x05maker")
    return path


def test_a_model_given_in_memory_is_never_changed() -> None:
    for proto in (conv_bn(), layernorm(), model(NOTHING)):
        before = proto.SerializeToString(deterministic=True)
        result = onnxfuse.optimize(proto)
        result.model.graph.node[0].op_type = "Changed"
        assert proto.SerializeToString(deterministic=True) == before
        assert result.validation is not None and result.validation.ok


def test_a_file_is_never_changed(tmp_path: Path) -> None:
    path = saved(tmp_path, conv_bn())
    before = path.read_bytes()
    result = onnxfuse.optimize(path, output=tmp_path / "out.onnx")
    assert path.read_bytes() == before
    assert result.output == tmp_path / "out.onnx"
    assert_same(onnx.load(path), onnx.load(tmp_path / "out.onnx"))


def test_byte_identical_where_nothing_matches(tmp_path: Path) -> None:
    path = saved(tmp_path, model(NOTHING))
    result = onnxfuse.optimize(path, output=tmp_path / "out.onnx")
    assert (tmp_path / "out.onnx").read_bytes() == path.read_bytes()
    assert not result.fusions
    result.save(tmp_path / "again.onnx")
    assert (tmp_path / "again.onnx").read_bytes() == path.read_bytes()


def test_byte_identical_where_only_near_misses_are(tmp_path: Path) -> None:
    text = CONV_BN.replace("float[1,3,3,3] y)", "float[1,3,3,3] y, float[1,3,3,3] t)")
    path = saved(tmp_path, model(text, {"w": noise(3, 2, 3, 3), **batchnorm(3)}))
    result = onnxfuse.optimize(path, output=tmp_path / "out.onnx", validate=False)
    assert result.report.near_misses
    assert (tmp_path / "out.onnx").read_bytes() == path.read_bytes()


def test_without_output_nothing_is_written(tmp_path: Path) -> None:
    path = saved(tmp_path, conv_bn())
    result = onnxfuse.optimize(path, validate=False)
    assert result.output is None
    assert sorted(tmp_path.iterdir()) == [path]


def test_dry_run_writes_nothing_but_tells_all(tmp_path: Path) -> None:
    path = saved(tmp_path, conv_bn())
    result = onnxfuse.optimize(path, output=tmp_path / "out.onnx", dry_run=True)
    assert sorted(tmp_path.iterdir()) == [path]
    assert result.output is None
    assert len(result.fusions) == 1
    assert result.validation is not None and result.validation.ok


def test_save(tmp_path: Path) -> None:
    result = onnxfuse.optimize(conv_bn(), validate=False)
    result.save(tmp_path / "out.onnx")
    assert onnx.load(tmp_path / "out.onnx") == result.model
    with pytest.raises(OutputError):
        result.save(tmp_path / "nowhere" / "out.onnx")


def test_large_weights_inline_and_external(tmp_path: Path) -> None:
    text = CONV_BN.replace("[1,3,3,3] y", "[1,64,3,3] y")
    weights = {"w": noise(64, 2, 3, 3), **batchnorm(64), "other": noise(500)}
    onnx.save(model(text, weights), tmp_path / "inline.onnx")
    onnx.save(model(text, weights), tmp_path / "external.onnx",
              save_as_external_data=True, location="weights.bin", size_threshold=0)  # fmt: skip
    for name in ("inline", "external"):
        result = onnxfuse.optimize(tmp_path / f"{name}.onnx", output=tmp_path / f"{name}.out")
        assert ops(result.model) == {"Conv": 1}
        assert_same(model(text, weights), onnx.load(tmp_path / f"{name}.out"))
        assert (tmp_path / f"{name}.out.data").exists() == (name == "external")


def test_output_equal_to_input(tmp_path: Path) -> None:
    path = saved(tmp_path, conv_bn())
    with pytest.raises(UsageError, match="in-place"):
        onnxfuse.optimize(path, output=path)
    onnxfuse.optimize(path, output=path, in_place=True)
    assert ops(onnx.load(path)) == {"Conv": 1}


def test_unusable_paths(tmp_path: Path) -> None:
    with pytest.raises(InputError):
        onnxfuse.optimize(tmp_path / "missing.onnx")
    with pytest.raises(OutputError):
        onnxfuse.optimize(saved(tmp_path, conv_bn()), output=tmp_path / "no" / "out.onnx", validate=False)


# Validation


def wrong_rule(folder: Path) -> Path:
    """A rule that claims what is not so; the loader cannot know."""
    return rule_file(folder, "(x) => (y) { y = Abs (x) }", "(x) => (y) { y = Neg (x) }", 'x = "T"', name="wrong",
                     head="opset = 18\nalso = [6, 13]")  # fmt: skip


def test_on_a_mismatch_nothing_is_written(tmp_path: Path) -> None:
    path = saved(tmp_path, model(NOTHING))
    out = tmp_path / "out.onnx"
    out.write_bytes(b"what was there")
    rules = tmp_path / "rules"
    rules.mkdir()
    with pytest.raises(ValidationError, match=r"output 'y' of the result differs by .* the tolerance is") as caught:
        onnxfuse.optimize(path, output=out, rules=[wrong_rule(rules)], verify_rules=False, on_mismatch="fail")
    assert caught.value.exit_code == 1
    assert out.read_bytes() == b"what was there"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["m.onnx", "out.onnx", "rules"]
    report = caught.value.report  # type: ignore[attr-defined]
    assert report.to_dict()["verdict"] != "ok"


def test_a_mismatch_passes_where_nobody_looks(tmp_path: Path) -> None:
    result = onnxfuse.optimize(model(NOTHING), rules=[wrong_rule(tmp_path)], verify_rules=False, validate=False)
    assert ops(result.model) == {"Neg": 1}
    assert result.validation is None


def test_a_tolerance_of_ones_own(tmp_path: Path) -> None:
    result = onnxfuse.optimize(model(NOTHING), rules=[wrong_rule(tmp_path)], verify_rules=False, atol=1e9)
    assert result.validation is not None and result.validation.ok


def test_an_original_that_cannot_run(tmp_path: Path) -> None:
    text = "g (float[2] x) => (float[2] y) { n = Neg (x)  i = Identity (n)  y = com.acme.Odd (i) }"
    path = saved(tmp_path, model(text, imports={"com.acme": 1}))
    with pytest.raises(OriginalFailsError, match=r"--no-validate|validate"):
        onnxfuse.optimize(path, output=tmp_path / "out.onnx")
    assert not (tmp_path / "out.onnx").exists()
    result = onnxfuse.optimize(path, output=tmp_path / "out.onnx", validate=False)
    assert ops(result.model) == {"Neg": 1, "Odd": 1}


# Initializers that are listed as inputs


def test_below_ir_4_listed_weights_are_constants() -> None:
    proto = conv_bn(opset=8, ir=3)
    for tensor in proto.graph.initializer:
        proto.graph.input.append(onnx.helper.make_tensor_value_info(tensor.name, 1, tensor.dims))
    result = onnxfuse.optimize(proto)
    assert ops(result.model) == {"Conv": 1}
    assert [value.name for value in result.model.graph.input] == ["x"]
    assert result.model.ir_version >= 4
    assert "no longer listed" in str(result.report.to_dict())


def test_from_ir_4_on_a_listed_weight_can_be_overridden() -> None:
    for name in ("w", "s", "v"):
        proto = conv_bn()
        array = next(tensor for tensor in proto.graph.initializer if tensor.name == name)
        proto.graph.input.append(onnx.helper.make_tensor_value_info(name, 1, array.dims))
        result = fused(proto)
        assert "BatchNormalization" in ops(result.model)
        assert result.report.near_misses[0].reason.endswith("is not constant")


# The record


def test_the_report_is_the_same_each_time(tmp_path: Path) -> None:
    path = saved(tmp_path, layernorm())
    first, second = (onnxfuse.optimize(path).report.to_json() for _ in range(2))
    assert first == second


def test_the_record_of_a_fusion() -> None:
    result = fused(conv_bn())
    (fusion,) = result.fusions
    assert (fusion.rule, fusion.scope) == ("conv-batchnorm", "")
    assert [(node.op, node.outputs) for node in fusion.before] == [("Conv", ("t",)), ("BatchNormalization", ("y",))]
    assert [(node.op, node.outputs) for node in fusion.after] == [("Conv", ("y",))]
    assert sorted((weight.dtype, weight.shape) for weight in fusion.weights) == [
        ("float", (3,)),
        ("float", (3, 2, 3, 3)),
    ]
    assert metadata(result.model.graph.node[0])["onnxfuse.rule"] == "conv-batchnorm"


def test_the_opset_is_kept_where_the_runtime_has_no_kernel_at_a_higher_one() -> None:
    # onnxruntime 1.31 has kernels for RoiAlign up to version 16, and none for version 22.
    proto = parser.parse_model("""
        <ir_version: 8, opset_import: ["" : 20]>
        g (float[n, 8] x, float[1, 1, 4, 4] image) => (float[n, 8] y, float[1, 1, 1, 1] z)
        <float two = {2.0}, float eps = {0.01}, int64[1] axes = {-1}, int64[1] of = {0},
         float[1, 4] box = {0.0, 0.0, 3.0, 3.0},
         float[8] s = {1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0}>
        {
            p = Pow (x, two)  v = ReduceMean (p, axes)  e = Add (v, eps)  r = Sqrt (e)
            m = Div (x, r)  y = Mul (m, s)  z = RoiAlign (image, box, of)
        }
    """)
    assert onnxfuse.optimize(proto, validate=False).report.model.opset.after == 23  # for RMSNormalization
    result = onnxfuse.optimize(proto)
    assert result.report.model.opset.after == 20 and result.validation is not None and result.validation.ok
    assert (
        result.report.steps[0].startswith("the opset is kept: raised to 23 alone, ")
        and "RoiAlign(22)" in result.report.steps[0]
    )
