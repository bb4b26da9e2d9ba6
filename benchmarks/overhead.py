"""What `onnxfuse optimize --no-validate` on models/bert.onnx costs beside the floor: import onnx and
onnx_graphsurgeon, load and save.

Run it as ``python benchmarks/overhead.py [MODEL] [--repeat 15]``. Exit code 1 if the ratio is above 2.0.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
from pathlib import Path

from measure import onnxfuse, run

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
        times: dict[str, list[float]] = {name: [] for name in commands}
        for _ in range(arguments.repeat):
            for name, command in commands.items():
                times[name].append(run(command).seconds)
    medians = {name: statistics.median(taken) for name, taken in times.items()}
    for name, median in medians.items():
        sys.stdout.write(f"{name:45} median {median * 1000:6.0f} ms  min {min(times[name]) * 1000:6.0f} ms\n")
    floor, ours = medians.values()
    least = min(times["onnxfuse optimize --no-validate"]) / min(next(iter(times.values())))
    sys.stdout.write(f"ratio of medians {ours / floor:.2f} (limit {_LIMIT}), of minima {least:.2f}\n")
    return int(ours / floor > _LIMIT)


if __name__ == "__main__":
    sys.exit(main())
