"""What `onnxfuse optimize --no-validate` on models/bert.onnx costs beside the floor: import onnx and
onnx_graphsurgeon, load and save.

Run it as ``python benchmarks/overhead.py [MODEL] [--repeat 15]``. Exit code 1 if the ratio is above 2.0.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from measure import Usage, onnxfuse, run

_LIMIT = 2.0
_BERT = Path(__file__).parents[1] / "models" / "bert.onnx"
_FLOOR = "import sys, onnx, onnx_graphsurgeon; onnx.save(onnx.load(sys.argv[1]), sys.argv[2])"


def main() -> int:
    """Run the two in turn and print the medians and their ratio."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", nargs="?", type=Path, default=_BERT)
    parser.add_argument("--repeat", type=int, default=15)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        output = str(Path(folder) / "out.onnx")
        commands = {
            "import onnx, onnx_graphsurgeon; load; save": [sys.executable, "-c", _FLOOR, str(arguments.model), output],
            "onnxfuse optimize --no-validate": onnxfuse(
                "optimize", str(arguments.model), "-o", output, "--no-validate", "--quiet"
            ),
        }
        for command in commands.values():
            run(command)  # the first run compiles the bytecode
        pairs = [[run(command) for command in commands.values()] for _ in range(arguments.repeat)]
    wall = _medians(pairs, lambda usage: usage.seconds)
    cpu = _medians(pairs, lambda usage: usage.cpu_seconds)
    for name, seconds, busy in zip(commands, wall, cpu, strict=True):
        sys.stdout.write(f"{name:45} median {seconds * 1000:6.0f} ms wall, {busy * 1000:6.0f} ms CPU\n")
    ratio = wall[1] / wall[0]
    sys.stdout.write(f"ratio {ratio:.2f} of wall time (limit {_LIMIT}), {cpu[1] / cpu[0]:.2f} of CPU time\n")
    return int(ratio > _LIMIT)


def _medians(pairs: list[list[Usage]], quantity: Callable[[Usage], float]) -> list[float]:
    return [statistics.median(map(quantity, usages)) for usages in zip(*pairs, strict=True)]


if __name__ == "__main__":
    sys.exit(main())
