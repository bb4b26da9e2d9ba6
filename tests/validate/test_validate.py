"""Whole validations: a model agrees with itself, and a changed one is caught at the output that is wrong."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from onnxfuse.errors import OriginalFailsError
from onnxfuse.model.file import ModelFile, from_proto, load
from onnxfuse.validate import Validation, check, providers, reference, validate
from onnxfuse.validate.sessions import CPU, CUDA, Refused, Session, open_session
from tests.validate.build import EMBEDDER, NETWORK, model, network_weights, noise, proto

SAMPLES = Path(__file__).parents[2] / "models"
LIGHT = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"


def on_cpu(original: ModelFile, result: ModelFile, **options: float) -> Validation:
    return validate(original, result, provider="cpu", **options)  # type: ignore[arg-type]


def network() -> onnx.ModelProto:
    return proto(NETWORK, network_weights())


def node(file: onnx.ModelProto, op: str) -> onnx.NodeProto:
    found: onnx.NodeProto = next(item for item in file.graph.node if item.op_type == op)
    return found


def initializer(file: onnx.ModelProto, name: str) -> onnx.TensorProto:
    found: onnx.TensorProto = next(item for item in file.graph.initializer if item.name == name)
    return found


def test_a_model_agrees_with_itself() -> None:
    found = on_cpu(from_proto(network()), from_proto(network()))
    assert found.ok and found.failures == () and found.provider == "CPUExecutionProvider"
    assert [run.ort_optimizations for run in found.runs] == ["off", "off", "all", "all"]
    assert all(item.max_abs == 0 for run in found.runs[:2] for item in run.outputs)
    assert {item.name for run in found.runs for item in run.outputs} == {"pooled", "normed"}


def swap_operands(file: onnx.ModelProto) -> None:
    minus = node(file, "Sub")
    minus.input[0], minus.input[1] = minus.input[1], minus.input[0]


def change_epsilon(file: onnx.ModelProto) -> None:
    # The largest variance of the pooled vector is below 10, so 1e-2 moves every element by more than 1e-4 of it.
    constant = next(item for item in file.graph.node if item.output[0] == "eps")
    constant.attribute[0].t.CopyFrom(numpy_helper.from_array(np.array(1e-2, np.float32)))


def change_weight(file: onnx.ModelProto) -> None:
    weight = initializer(file, "w")
    array = numpy_helper.to_array(weight).copy()
    array[2, 1, 0, 0] += 0.05
    weight.CopyFrom(numpy_helper.from_array(array, "w"))


def drop_batchnorm_epsilon(file: onnx.ModelProto) -> None:
    node(file, "BatchNormalization").attribute[0].f = 1e-2


@pytest.mark.parametrize(
    ("mutate", "wrong"),
    [
        (swap_operands, {"pooled"}),
        (change_epsilon, {"pooled"}),
        (change_weight, {"pooled", "normed"}),
        (drop_batchnorm_epsilon, {"pooled", "normed"}),
    ],
)
def test_a_changed_model_fails_at_the_right_output(mutate: Callable[[onnx.ModelProto], None], wrong: set[str]) -> None:
    changed = network()
    mutate(changed)
    found = on_cpu(from_proto(network()), from_proto(changed))
    assert not found.ok
    assert {item.name for _, item in found.failures} == wrong
    assert {run.ort_optimizations for run, _ in found.failures} == {"off", "all"}
    assert all(item.max_abs > item.tolerance > 0 for _, item in found.failures)


def test_a_right_rewrite_passes() -> None:
    folded = network()
    weights = {name: array.astype(np.float64) for name, array in network_weights().items()}
    factor = weights["scale"] / np.sqrt(weights["var"] + 1e-5)
    new = {
        "w": weights["w"] * factor[:, None, None, None],
        "b": (weights["b"] - weights["mean"]) * factor + weights["shift"],
    }
    for name, array in new.items():
        initializer(folded, name).CopyFrom(numpy_helper.from_array(array.astype(np.float32), name))
    folded.graph.node.remove(node(folded, "BatchNormalization"))
    node(folded, "Conv").output[0] = "normed"
    found = on_cpu(from_proto(network()), from_proto(folded))
    assert found.ok
    assert max(item.max_abs for run in found.runs for item in run.outputs) > 0


def test_tolerances_are_the_callers() -> None:
    changed = network()
    change_weight(changed)
    assert on_cpu(from_proto(network()), from_proto(changed), rtol=1.0, atol=1.0).ok


def test_a_wrong_index_is_exact() -> None:
    text = "g (float[batch, 9] x) => (int64[batch] best) { best = ArgMax <axis = 1, keepdims = 0> (x) }"
    assert not on_cpu(model(text), model(text.replace("ArgMax", "ArgMin"))).ok


def test_a_frozen_batch_is_caught_by_the_second_size() -> None:
    text = """g (float[batch, 4] x) => (float[batch, 4] y) {
        s = Constant <value = int64[2] {%s, 4}> () y = Reshape (x, s) }"""
    found = on_cpu(model(text % "-1"), model(text % "2"))
    assert [run.ok for run in found.runs] == [True, False, True, False]
    assert "cannot run it" in found.failures[0][1].note and found.failures[0][1].name == "y"


def test_a_mask_that_is_ignored_is_caught() -> None:
    changed = proto(EMBEDDER, {"table": noise(11, 4)})
    node(changed, "Mul").input[1] = "one"
    changed.graph.initializer.append(numpy_helper.from_array(np.ones((1, 1, 1), np.float32), "one"))
    found = on_cpu(model(EMBEDDER, {"table": noise(11, 4)}), from_proto(changed))
    assert not found.ok


def test_a_result_that_does_not_load_fails_with_the_reason() -> None:
    broken = network()
    node(broken, "Sqrt").op_type = "NoSuchOp"
    found = on_cpu(from_proto(network()), from_proto(broken))
    assert not found.ok and len(found.failures) == 8
    assert all("cannot load it" in item.note and "NoSuchOp" in item.note for _, item in found.failures)


def test_an_original_that_does_not_load_is_told_apart() -> None:
    broken = network()
    node(broken, "Sqrt").op_type = "NoSuchOp"
    with pytest.raises(OriginalFailsError, match=r"cannot load the original.*NoSuchOp.*--no-validate"):
        on_cpu(from_proto(broken), from_proto(broken))


def with_optimizer(monkeypatch: pytest.MonkeyPatch, change: Callable[[ModelFile], ModelFile]) -> None:
    """Let onnxruntime's optimizations do ``change`` to every model."""

    def opened(file: ModelFile, *, optimized: bool, provider: str) -> Session:
        return open_session(change(file) if optimized else file, optimized=False, provider=provider)

    monkeypatch.setattr(check, "open_session", opened)


def refuse(file: ModelFile) -> ModelFile:
    raise Refused("the fused node has no kernel")


def spoil(file: ModelFile) -> ModelFile:
    changed = onnx.ModelProto()
    changed.CopyFrom(file.proto)
    drop_batchnorm_epsilon(changed)
    return from_proto(changed)


def test_an_optimizer_that_breaks_the_original_is_not_held_against_the_result(monkeypatch: pytest.MonkeyPatch) -> None:
    with_optimizer(monkeypatch, refuse)
    found = on_cpu(from_proto(network()), from_proto(network()))
    assert found.ok and [run.ort_optimizations for run in found.runs] == ["off", "off", "all", "all"]
    assert all("break the original" in item.note for run in found.runs[2:] for item in run.outputs)


def test_an_optimizer_that_changes_both_alike_is_not_held_against_the_result(monkeypatch: pytest.MonkeyPatch) -> None:
    with_optimizer(monkeypatch, spoil)
    found = on_cpu(from_proto(network()), from_proto(network()))
    assert found.ok and all("original likewise" in item.note for run in found.runs[2:] for item in run.outputs)


def test_an_optimizer_that_changes_the_result_alone_is(monkeypatch: pytest.MonkeyPatch) -> None:
    original, result = from_proto(network()), from_proto(network())
    with_optimizer(monkeypatch, lambda file: file if file is original else spoil(file))
    found = on_cpu(original, result)
    assert not found.ok and {run.ort_optimizations for run, _ in found.failures} == {"all"}


def test_an_optimizer_that_breaks_the_result_alone_is(monkeypatch: pytest.MonkeyPatch) -> None:
    original, result = from_proto(network()), from_proto(network())
    with_optimizer(monkeypatch, lambda file: file if file is original else refuse(file))
    found = on_cpu(original, result)
    assert not found.ok and all("no kernel" in item.note for _, item in found.failures)
    assert {run.ort_optimizations for run, _ in found.failures} == {"all"}


def test_an_optimizer_that_spoils_the_original_only_leaves_a_good_result_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    original, result = from_proto(network()), from_proto(network())
    with_optimizer(monkeypatch, lambda file: spoil(file) if file is original else file)
    assert on_cpu(original, result).ok


def without_cuda(file: ModelFile, *, optimized: bool, provider: str) -> Session:
    if provider == CUDA:
        raise Refused("out of memory")
    return open_session(file, optimized=optimized, provider=provider)


def test_a_model_that_fails_on_cuda_is_validated_on_the_cpu_unless_cuda_was_asked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(providers, "choose", lambda provider: (CUDA, ""))
    monkeypatch.setattr(reference, "open_session", without_cuda)
    file = from_proto(network())
    found = validate(file, file)
    assert found.ok and found.provider == CPU and "out of memory" in found.note
    with pytest.raises(OriginalFailsError, match="out of memory"):
        validate(file, file, provider="cuda")


@pytest.mark.parametrize("path", sorted(SAMPLES.glob("*.onnx")), ids=lambda path: path.stem)
def test_the_sample_models_agree_with_themselves(path: Path) -> None:
    file = load(path)
    found = on_cpu(file, file)
    assert found.ok and found.note == ""


def test_random_outputs_are_compared_by_shape() -> None:
    text = """g (float[batch, 4] x) => (float[batch, 4] y, float[batch, 4] z) {
        r = RandomNormalLike (x) y = Add (x, r) z = Relu (x) }"""
    found = on_cpu(model(text), model(text))
    assert found.ok
    assert {item.name for run in found.runs for item in run.outputs if "random" in item.note} == {"y"}
    assert not on_cpu(model(text), model(text.replace("z = Relu", "z = Neg"))).ok


@pytest.mark.parametrize(
    "text",
    [
        "g (bfloat16[n, 4] x) => (bfloat16[n, 4] y) { y = Identity (x) }",
        "g (float8e4m3fn[4] x) => (float8e4m3fn[4] y) { y = Identity (x) }",
        "g (string[n] x) => (string[n] y) { y = Identity (x) }",
        "g (double[n, 4] x) => (double[n, 4] y) { y = Softmax (x) }",
        "g (seq(float[2, 3]) x) => (seq(float[2, 3]) y) { y = Identity (x) }",
        "g (float[n, 3] x) => (seq(float[m, 3]) y) { y = SplitToSequence <axis = 0> (x) }",
        "g (float[n, 0] x) => (float[n, 0] y) { y = Relu (x) }",
        "g (float[n, c, h, w] x, float[4] scales) => (float[a, b, d, e] y) { y = Resize (x, , scales) }",
        "g (float[n, 6] x, int64[1] k) => (float[n, m] y, int64[n, m] i) { y, i = TopK (x, k) }",
        "g (float[4] x, int64[2] shape) => (float[a, b] y) { y = Reshape (x, shape) }",
        "g (int64 limit) => (int64[m] y) { a = Constant <value_int = 0> () b = Constant <value_int = 1> () "
        "y = Range (a, limit, b) }",
    ],
)
def test_many_kinds_of_input(text: str) -> None:
    assert on_cpu(model(text), model(text)).ok


def test_an_older_model_whose_weights_are_inputs() -> None:
    old = proto("g (float[n, 3] x, float[3] w) => (float[n, 3] y) { y = Mul (x, w) }", {"w": noise(3)}, opset=8, ir=3)
    found = on_cpu(from_proto(old), from_proto(old))
    assert found.ok and set(found.runs[0].shapes) == {"x"}


@pytest.mark.parametrize("name", ["light_squeezenet", "light_shufflenet"])
def test_whole_networks_from_a_file(name: str) -> None:
    file = load(LIGHT / f"{name}.onnx")
    assert on_cpu(file, file).ok


def test_weights_are_read_from_the_model_file(tmp_path: Path) -> None:
    path = tmp_path / "net.onnx"
    onnx.save(network(), path)
    assert on_cpu(load(path), from_proto(network())).ok


def test_same_seed_same_report_and_progress_ends() -> None:
    seen: list[tuple[str, int, int]] = []
    file = from_proto(network())
    first = validate(file, file, provider="cpu", progress=lambda *step: seen.append(step))
    assert json.dumps(asdict(first)) == json.dumps(asdict(on_cpu(file, file)))
    assert seen[-1] == ("validate", 4, 4)
    other = on_cpu(file, file, seed=7)
    assert [run.seed for run in other.runs] == [7, 8, 7, 8]


def test_inputs_stay_as_they_were() -> None:
    file = from_proto(network())
    before = file.proto.SerializeToString(deterministic=True)
    on_cpu(file, file)
    assert file.proto.SerializeToString(deterministic=True) == before


MEASURE = """
import sys
from onnxfuse.model.file import load
from onnxfuse.validate import validate
import onnxruntime

def anonymous():
    with open("/proc/self/smaps_rollup") as lines:
        return next(int(line.split()[1]) for line in lines if line.startswith("Anonymous:"))

before = anonymous()
file = load(sys.argv[1])
assert validate(file, file).ok
with open("/proc/self/status") as lines:
    status = dict(line.split(":", 1) for line in lines)
print(int(status["VmHWM"].split()[0]), anonymous() - before, before)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_no_copy_of_the_weights_and_no_noise(tmp_path: Path) -> None:
    side, layers = 1024, 24
    weights = {f"w{i}": noise(side, side, seed=i) / np.float32(32) for i in range(layers)}
    steps = [helper.make_node("MatMul", [f"x{i}", f"w{i}"], [f"x{i + 1}"]) for i in range(layers)]
    ports = [helper.make_tensor_value_info(name, 1, ["n", side]) for name in ("x0", f"x{layers}")]
    tensors = [numpy_helper.from_array(array, name) for name, array in weights.items()]
    graph = helper.make_graph(steps, "g", ports[:1], ports[1:], tensors)
    path = tmp_path / "big.onnx"
    onnx.save(helper.make_model(graph, ir_version=9, opset_imports=[helper.make_opsetid("", 20)]), path)
    done = subprocess.run([sys.executable, "-c", MEASURE, path], capture_output=True, text=True, check=True)
    assert done.stderr == ""
    peak_kb, grown_kb, before_kb = map(int, done.stdout.split())
    # 96 MB of weights: mapped once they count in the peak once, copied they would in anonymous memory or twice.
    size_kb = path.stat().st_size // 1024
    assert grown_kb < size_kb // 3
    assert peak_kb < before_kb + 150_000 + size_kb
