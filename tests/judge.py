"""Judging whole models: what onnxruntime computes with its own optimizations off, and what is left in a graph."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
from onnx import AttributeProto, GraphProto, ModelProto, NodeProto

Array = np.ndarray[Any, np.dtype[Any]]
_CONVOLUTIONS = ("Conv", "ConvTranspose")


def session(model: ModelProto | Path) -> ort.InferenceSession:
    """Open a model on the CPU, with nothing of it rewritten by onnxruntime."""
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 2
    options.log_severity_level = 4
    source = str(model) if isinstance(model, Path) else model.SerializeToString()
    return ort.InferenceSession(source, options, providers=["CPUExecutionProvider"])


def run(model: ModelProto | Path, feeds: Mapping[str, Array]) -> list[Array]:
    """Return the outputs of a model; `feeds` gives each input by name."""
    return list(session(model).run(None, dict(feeds)))


def nodes(model: ModelProto) -> Iterator[NodeProto]:
    """Yield every node of a model: those of its graph, of nested graphs and of local functions."""
    yield from _with_bodies(model.graph.node)
    for function in model.functions:
        yield from _with_bodies(function.node)


def _with_bodies(listed: Any) -> Iterator[NodeProto]:
    for node in listed:
        yield node
        for body in _bodies(node):
            yield from _with_bodies(body.node)


def _bodies(node: NodeProto) -> Iterator[GraphProto]:
    for attribute in node.attribute:
        if attribute.type == AttributeProto.GRAPH:
            yield attribute.g
        yield from attribute.graphs


def ops(model: ModelProto) -> Counter[str]:
    """Count the operators of a model, but for Constant, which is only a way to write a weight."""
    return Counter(node.op_type for node in nodes(model) if node.op_type != "Constant")


def readers(model: ModelProto) -> Counter[str]:
    """Count for every name how often nodes and outputs, of nested graphs too, read it."""
    counts = Counter(name for node in nodes(model) for name in node.input if name)
    counts.update(value.name for value in model.graph.output)
    counts.update(value.name for node in nodes(model) for body in _bodies(node) for value in body.output)
    return counts


def unread_initializers(model: ModelProto) -> list[str]:
    """Return the initializers of the main graph that nothing reads."""
    read = readers(model)
    return [tensor.name for tensor in model.graph.initializer if not read[tensor.name]]


def batchnorms_behind_conv(model: ModelProto) -> list[str]:
    """Return the result of each BatchNormalization that is all that reads the output of a Conv or ConvTranspose."""
    read = readers(model)
    convolved = {node.output[0] for node in nodes(model) if node.op_type in _CONVOLUTIONS and not node.domain}
    norms = [node for node in nodes(model) if node.op_type == "BatchNormalization"]
    return [node.output[0] for node in norms if node.input[0] in convolved and read[node.input[0]] == 1]


def load_whole(path: Path) -> ModelProto:
    """Load a model that has to pass the checker, with its types and shapes inferred strictly."""
    onnx.checker.check_model(str(path), full_check=True)
    return onnx.load(path)
