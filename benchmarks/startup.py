"""How long ``onnxfuse --help`` takes, beside an empty Python: the budget is 150 ms of wall time.

Run it as ``python benchmarks/startup.py [repetitions]``; it exits with 1 when the median is over the budget.
"""

from __future__ import annotations

import statistics
import sys

from measure import run

_BUDGET_MS = 150.0
_COMMANDS = {
    "python -c pass": ["-c", "pass"],
    "import click": ["-c", "import click"],
    "onnxfuse --help": ["-m", "onnxfuse", "--help"],
    "onnxfuse --version": ["-m", "onnxfuse", "--version"],
    "onnxfuse optimize --help": ["-m", "onnxfuse", "optimize", "--help"],
}


def main() -> int:
    """Measure the commands in turn, so that a busy moment hits all alike, and print the medians."""
    repetitions = int(sys.argv[1]) if len(sys.argv) > 1 else 21
    for args in _COMMANDS.values():
        _milliseconds(args)  # the first run compiles the bytecode
    times: dict[str, list[float]] = {name: [] for name in _COMMANDS}
    for _ in range(repetitions):
        for name, args in _COMMANDS.items():
            times[name].append(_milliseconds(args))
    medians = {name: statistics.median(taken) for name, taken in times.items()}
    base = medians["python -c pass"]
    for name, median in medians.items():
        figures = f"median {median:6.1f} ms  min {min(times[name]):6.1f} ms  {median / base:4.1f} x python -c pass"
        sys.stdout.write(f"{name:26} {figures}\n")
    return int(medians["onnxfuse --help"] > _BUDGET_MS)


def _milliseconds(args: list[str]) -> float:
    return run([sys.executable, *args]).seconds * 1000


if __name__ == "__main__":
    sys.exit(main())
