"""Memory and time on a 1 GB model in which only one Conv + BatchNormalization is folded, beside onnx.load + onnx.save.

Run it as ``python benchmarks/large_model.py [--gb 1] [--repeat 3] [--folder DIR]``. The model is written twice, with
its weights inline and with external data. It needs five times its size on the disk and removes what it wrote. Exit code
1 if `onnxfuse optimize --no-validate` peaks above 250 MB or takes longer than load + save.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
from pathlib import Path

from measure import MB, Usage, onnxfuse, run

_BUDGET_MB = 250.0
_WIDTH = 4096  # a weight of [4096, 4096] floats takes 67 MB
_MAKE = """
import sys
import numpy as np, onnx
from onnx import TensorProto, helper, numpy_helper
path, count, external = sys.argv[1], int(sys.argv[2]), sys.argv[3] == "external"
rng = np.random.default_rng(0)
weights, nodes = [], []
def weight(name, values):
    weights.append(numpy_helper.from_array(np.asarray(values, np.float32), name))
    return name
kernel = weight("kernel", rng.standard_normal((4, 3, 3, 3)))
norm = [weight(name, rng.uniform(0.5, 1.5, 4)) for name in ("scale", "bias", "mean", "var")]
nodes.append(helper.make_node("Conv", ["image", kernel], ["c"], pads=[1, 1, 1, 1]))
nodes.append(helper.make_node("BatchNormalization", ["c", *norm], ["n"]))
nodes.append(helper.make_node("Flatten", ["n"], ["h0"]))
for i in range(count):
    w = weight(f"w{i}", rng.standard_normal((4096, 4096), np.float32) / 64)
    nodes.append(helper.make_node("MatMul", [f"h{i}", w], [f"m{i}"]))
    nodes.append(helper.make_node("Tanh", [f"m{i}"], [f"h{i + 1}"]))
info = helper.make_tensor_value_info
graph = helper.make_graph(nodes, "large", [info("image", TensorProto.FLOAT, ["batch", 3, 32, 32])],
                          [info(f"h{count}", TensorProto.FLOAT, ["batch", 4096])], weights)
model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
onnx.save(model, path, save_as_external_data=external, location="weights.bin", all_tensors_to_one_file=True)
"""
_LOAD_SAVE = """
import sys
import onnx
external = sys.argv[3] == "external"
onnx.save(onnx.load(sys.argv[1]), sys.argv[2], save_as_external_data=external, location="saved.bin")
"""


def main() -> int:
    """Measure both kinds of model and print the ratios."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gb", type=float, default=1.0, help="size of the model")
    parser.add_argument("--repeat", type=int, default=3, help="runs of each command, in turn")
    parser.add_argument("--folder", help="where to put the models (default: the system's temporary folder)")
    arguments = parser.parse_args()
    count = max(1, round(arguments.gb * 1000 * MB / (4 * _WIDTH * _WIDTH)))
    results = [_measure(kind, count, arguments.repeat, arguments.folder) for kind in ("inline", "external")]
    return int(not all(results))


def _measure(kind: str, count: int, repeat: int, folder: str | None) -> bool:
    with tempfile.TemporaryDirectory(dir=folder) as name:
        model, ours, theirs = (Path(name) / part for part in ("model.onnx", "ours.onnx", "theirs.onnx"))
        run([sys.executable, "-c", _MAKE, str(model), str(count), kind])
        size = sum(file.stat().st_size for file in Path(name).iterdir()) / MB
        fast = onnxfuse("optimize", str(model), "-o", str(ours), "--no-validate", "--quiet")
        plain = [sys.executable, "-c", _LOAD_SAVE, str(model), str(theirs), kind]
        run([*fast, "--dry-run"])  # the first run compiles the bytecode
        pairs = [(_clean(run(fast), name), _clean(run(plain), name)) for _ in range(repeat)]
        whole = [run([*fast[:-2], "--provider", "cpu", "--quiet"], watch=True), run([*fast], watch=True)]
        return _tell(kind, size, pairs, whole)


def _clean(usage: Usage, folder: str) -> Usage:
    """Remove what a command wrote, so that the next one starts on an empty place."""
    for pattern in ("ours.*", "theirs.*", "saved.bin"):
        for file in Path(folder).glob(pattern):
            file.unlink()
    return usage


def _tell(kind: str, size: float, pairs: list[tuple[Usage, Usage]], whole: list[Usage]) -> bool:
    ratio = statistics.median(ours.seconds / theirs.seconds for ours, theirs in pairs)
    ours, theirs = (max(usage.peak_mb for usage in side) for side in zip(*pairs, strict=True))
    seconds = [statistics.median(usage.seconds for usage in side) for side in zip(*pairs, strict=True)]
    validated, bare = whole
    beside = f"load + save {theirs:.0f} MB ({ours / theirs:.2f} x)"
    lines = [
        f"{kind}, {size:.0f} MB:",
        f"  --no-validate   {ratio:.2f} x the time of load + save ({seconds[0]:.2f} s, {seconds[1]:.2f} s)",
        f"  peak memory     {ours:.0f} MB, budget {_BUDGET_MB:.0f}; {beside}",
    ]
    if validated.anonymous_mb is not None and bare.anonymous_mb is not None:
        lines.append(
            f"  with validation {validated.peak_mb:.0f} MB peak, of which at most {validated.anonymous_mb:.0f} MB are "
            f"anonymous ({validated.anonymous_mb / size:.2f} x the model); without {bare.anonymous_mb:.0f} MB"
        )
    sys.stdout.write("\n".join(lines) + "\n")
    sys.stdout.flush()
    return ours < _BUDGET_MB and ratio < 1


if __name__ == "__main__":
    sys.exit(main())
