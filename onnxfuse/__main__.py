"""``python -m onnxfuse``: the same as the ``onnxfuse`` command."""

from onnxfuse.cli.main import main

if __name__ == "__main__":
    raise SystemExit(main())
