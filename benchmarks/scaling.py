"""Whether the time to optimize grows in proportion to the number of nodes: chains of transformer-like blocks.

Run it as ``python benchmarks/scaling.py [NODES ...]`` (default: 1,000, 10,000 and 100,000). A block has 17 nodes: a
linear layer with bias, an erf GELU, a residual and a LayerNormalization, all written out at opset 13.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from measure import Usage, onnxfuse, run

_BLOCK_NODES = 17
_SMALL = 20_000
_MAKE = """
import sys
import numpy as np, onnx
from onnx import TensorProto, helper, numpy_helper
path, blocks, width = sys.argv[1], int(sys.argv[2]), 8
rng = np.random.default_rng(0)
nodes, weights = [], []
def constant(name, value):
    weights.append(numpy_helper.from_array(np.asarray(value, np.float32), name))
    return name
two, eps, half, one, root = (constant(n, v) for n, v in
                             dict(two=2, eps=1e-5, half=0.5, one=1, root=2 ** 0.5).items())
def op(kind, *operands, **attributes):
    nodes.append(helper.make_node(kind, operands, [f"v{len(nodes)}"], name=f"n{len(nodes)}", **attributes))
    return nodes[-1].output[0]
x = "x"
for block in range(blocks):
    w, b, gain, shift = (constant(f"{name}{block}", rng.standard_normal(shape) * scale) for name, shape, scale in
                         (("w", (width, width), 0.1), ("b", width, 0.5), ("gain", width, 0.5), ("shift", width, 0.5)))
    h = op("Add", op("MatMul", x, w), b)
    h = op("Mul", op("Mul", h, op("Add", op("Erf", op("Div", h, root)), one)), half)
    x = op("Add", h, x)
    centred = op("Sub", x, op("ReduceMean", x, axes=[-1]))
    variance = op("ReduceMean", op("Pow", centred, two), axes=[-1])
    normal = op("Div", centred, op("Sqrt", op("Add", variance, eps)))
    x = op("Add", op("Mul", normal, gain), shift)
info = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", "sequence", width]) for name in ("x", x)]
graph = helper.make_graph(nodes, "chain", info[:1], info[1:], weights)
onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), path)
"""


def main() -> int:
    """Measure each size, smallest first, and print the CPU time per 10,000 nodes beside that of the size before."""
    sizes = [int(text.replace(",", "")) for text in sys.argv[1:]] or [1_000, 10_000, 100_000]
    before: float | None = None
    with tempfile.TemporaryDirectory() as folder:
        model, output = Path(folder) / "chain.onnx", Path(folder) / "out.onnx"
        start = _measure(model, output, 1)  # what does not depend on the size: start-up, imports, rules
        sys.stdout.write(f"{_BLOCK_NODES:8} nodes {start.cpu_seconds:7.2f} s CPU, {start.seconds:7.2f} s wall\n")
        for size in sizes:
            blocks = max(1, round(size / _BLOCK_NODES))
            usage = _measure(model, output, blocks)
            each = (usage.cpu_seconds - start.cpu_seconds) / (blocks * _BLOCK_NODES) * 10_000
            ratio = f", {each / before:4.2f} x the size before" if before else ""
            sys.stdout.write(
                f"{blocks * _BLOCK_NODES:8} nodes {usage.cpu_seconds:7.2f} s CPU, {usage.seconds:7.2f} s wall, "
                f"{each:5.2f} s CPU per 10,000 nodes beyond the start{ratio}\n"
            )
            sys.stdout.flush()
            before = each
    return 0


def _measure(model: Path, output: Path, blocks: int) -> Usage:
    """Return the run that took least CPU time: of several, but for large models, whose noise is small beside them."""
    run([sys.executable, "-c", _MAKE, str(model), str(blocks)])
    command = onnxfuse("optimize", str(model), "-o", str(output), "--no-validate", "--quiet")
    repeat = 4 if blocks * _BLOCK_NODES <= _SMALL else 1
    return min((run(command) for _ in range(repeat)), key=lambda usage: usage.cpu_seconds)


if __name__ == "__main__":
    sys.exit(main())
