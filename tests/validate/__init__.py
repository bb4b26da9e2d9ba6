"""Tests of onnxfuse.validate."""
