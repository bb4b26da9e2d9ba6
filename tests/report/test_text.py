"""The text report: what a person reads, at each verbosity."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onnxfuse.report import Change, Report
from onnxfuse.report.text import render, verdict_line
from onnxfuse.report.wording import number, printable, size
from onnxfuse.rewrite.trace import Fusion, NodeRecord
from tests.report.samples import mismatch, report, validation

_DEFAULT = """\
models/net.onnx  opset 13, 5 nodes, 52.1 kB
  ~ conv-batchnorm  Conv 'conv0' + BatchNormalization 'bn0' -> Conv 'conv0'
  ~ conv-batchnorm  Conv 'conv1' + BatchNormalization 'bn1' -> Conv 'conv1'
  - 1 near miss (-v tells why)
                         before    after
  - BatchNormalization        2        0
    all nodes                 5        3
    size                52.1 kB  51.0 kB
  ~ opset kept at 13: no fusion found needs a higher one
  + validated on CPUExecutionProvider (not on CUDA: no CUDA device): 1 run with optimizations off, \
1 run with optimizations all
    worst output 'y' float32[2, 10]: max abs 2.9e-06 = 0.029 x tolerance 0.0001
+ models/net.onnx -> models/net.opt.onnx: optimized, 2 fusions, 5 -> 3 nodes, validated on CPUExecutionProvider
"""


def test_default() -> None:
    assert render(report()) == _DEFAULT


def test_quiet_is_the_verdict_line() -> None:
    assert render(report(), verbosity=-1) == _DEFAULT.splitlines()[-1] + "\n"


def test_many_equal_fusions_share_a_line() -> None:
    lines = render(report(1200)).splitlines()
    assert "  ~ conv-batchnorm  1,200 x Conv + BatchNormalization -> Conv" in lines
    assert len(lines) < 12


def test_verbose_lists_every_fusion_weight_near_miss_and_run() -> None:
    text = render(report(20), verbosity=1)
    for index in range(20):
        assert f"Conv 'conv{index}' + BatchNormalization 'bn{index}' -> Conv 'conv{index}'" in text
        assert f"+ weight 'w{index}' float32[8, 3, 3, 3]" in text
    assert "- gelu-erf  not at 'Erf_7': the input of Erf is not divided by sqrt(2)" in text
    assert "optimizations off, seed 0, x [2, 3, 8, 8]" in text
    assert "optimizations all, seed 0, x [2, 3, 8, 8]" in text


def test_mismatch_names_output_error_and_tolerance() -> None:
    line = verdict_line(mismatch())
    assert line.startswith("! models/net.onnx: mismatch")
    assert line.endswith("output 'y' float32[2, 10]: max abs 0.3 = 3,000 x tolerance 0.0001, nothing written")


def test_unchanged() -> None:
    made = report(0, verdict="unchanged", validation=None)
    expected = "+ models/net.onnx -> models/net.opt.onnx: unchanged, no rule matched"
    assert render(made).splitlines()[-1] == expected


def test_not_validated_is_said() -> None:
    assert "not validated" in verdict_line(report(validation=None))


def test_opset_change_is_in_the_table() -> None:
    made = report()
    made = replace(made, model=replace(made.model, opset=Change(13, 20)))
    assert any(line.split() == ["opset", "13", "20"] for line in render(made).splitlines())


def test_a_small_change_of_size_is_told_in_bytes() -> None:
    made = report()
    made = replace(made, model=replace(made.model, bytes=Change(52_140, 52_130)))
    assert any(line.split() == ["size", "52,140", "B", "52,130", "B"] for line in render(made).splitlines())


def test_long_fusions_are_shortened_and_nodes_without_a_name_go_by_their_output() -> None:
    before = tuple(NodeRecord("", op, (f"{op}_out",)) for op in ("Div", "Erf", "Add", "Mul", "Mul"))
    fusion = Fusion("gelu-erf", "", "then_branch", before, (NodeRecord("", "Gelu", ("y",)),), ())
    text = render(report(fusions=(fusion,)))
    assert "~ gelu-erf  Div 'Div_out' + 3 more + Mul 'Mul_out' -> Gelu 'y'  in 'then_branch'" in text


def test_long_names_are_left_out_unless_verbose() -> None:
    name = "/model/encoder/layer.0/intermediate/intermediate_act_fn/Mul_1"
    node = NodeRecord(name, "Mul", ("y",))
    fusion = Fusion("r", "", "", (node,), (node,), ())
    assert "  ~ r  Mul -> Mul\n" in render(report(fusions=(fusion,)))
    assert "  ~ r  2 x Mul -> Mul\n" in render(report(fusions=(fusion, fusion)))
    assert f"  ~ r  Mul '{name}' -> Mul '{name}'" in render(report(fusions=(fusion,)), verbosity=1)


def _colored(text: str, role: str) -> str:
    return f"<{role}>{text}</{role}>"


@pytest.mark.parametrize("made", [report(), mismatch(), report(900)])
@pytest.mark.parametrize("verbosity", [-1, 0, 1])
def test_style_adds_nothing_but_style(made: Report, verbosity: int) -> None:
    styled = render(made, verbosity=verbosity, style=_colored)
    for role in ("good", "bad", "change", "faint", "strong"):
        styled = styled.replace(f"<{role}>", "").replace(f"</{role}>", "")
    assert styled == render(made, verbosity=verbosity)


@given(st.text())
def test_names_cannot_command_the_terminal(name: str) -> None:
    assert printable(name).isprintable()
    node = NodeRecord(name, "Conv", (name,))
    made = report(
        fusions=(Fusion("r", name, name, (node,), (node,), ()),), steps=(name,), validation=validation(note=name)
    )
    assert all(line.isprintable() for line in render(made, verbosity=1).split("\n"))


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, "0 B"), (999, "999 B"), (1000, "1.0 kB"), (999_999, "1.0 MB"), (439_000_000, "439.0 MB"), (10**10, "10.0 GB")],
)
def test_size(count: int, text: str) -> None:
    assert size(count) == text


@pytest.mark.parametrize(
    ("value", "text"), [(0.0, "0"), (2.94e-6, "2.9e-06"), (0.0294, "0.029"), (3000.0, "3,000"), (1e9, "1e+09")]
)
def test_number(value: float, text: str) -> None:
    assert number(value) == text
