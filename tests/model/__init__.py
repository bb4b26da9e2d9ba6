"""Tests of onnxfuse.model."""
