"""What these tests share: models from ONNX text, onnxruntime as the judge, and a look at what a model holds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
from numpy.typing import NDArray
from onnx import GraphProto, ModelProto, NodeProto, TensorProto, helper, numpy_helper

from onnxfuse.pipeline import Result, optimize

Array = NDArray[Any]

# Relative to the greatest magnitude of an output.
TOLERANCES = {"float16": 1e-2, "float32": 1e-5, "float64": 1e-11}


def model(
    text: str,
    weights: Mapping[str, Array] | None = None,
    *,
    opset: int = 18,
    ir: int = 9,
    imports: Mapping[str, int] | None = None,
    functions: str = "",
) -> ModelProto:
    """Return the model of a graph text, its weights added as initializers of the main graph."""
    domains = ", ".join(f'"{domain}": {version}' for domain, version in {"": opset, **(imports or {})}.items())
    made = onnx.parser.parse_model(f"<ir_version: {ir}, opset_import: [{domains}]>\n{text}\n{functions}")
    made.graph.initializer.extend(numpy_helper.from_array(array, name) for name, array in (weights or {}).items())
    return made


def noise(*shape: int, seed: int = 0, dtype: str = "float32") -> Array:
    """Return values of unit scale."""
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def batchnorm(channels: int, seed: int = 1, dtype: str = "float32") -> dict[str, Array]:
    """Return the four parameters of a BatchNormalization, called s, o, m and v."""
    scale, shift, mean, var = (noise(channels, seed=seed + i, dtype=dtype) for i in range(4))
    return {"s": scale, "o": shift, "m": mean, "v": (np.abs(var) + 0.25).astype(dtype)}


def run(proto: ModelProto, feeds: Mapping[str, Array]) -> dict[str, Array]:
    """Run a model on onnxruntime's CPU with all its optimizations off."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(proto.SerializeToString(), options, providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(None, dict(feeds)), strict=True))


def feeds_for(proto: ModelProto, seed: int = 7, size: int = 2) -> dict[str, Array]:
    """Return values for all inputs that have no default; `size`: what symbolic dims are."""
    given = {tensor.name for tensor in proto.graph.initializer}
    random = np.random.default_rng(seed)
    feeds: dict[str, Array] = {}
    for value in proto.graph.input:
        if value.name in given:
            continue
        tensor = value.type.tensor_type
        shape = [dim.dim_value if dim.HasField("dim_value") else size for dim in tensor.shape.dim]
        dtype = np.dtype(helper.tensor_dtype_to_np_dtype(tensor.elem_type))
        if dtype.kind == "b":
            feeds[value.name] = np.asarray(random.integers(0, 2, shape), bool)
        elif dtype.kind in "iu":
            feeds[value.name] = np.asarray(random.integers(0, 3, shape), dtype)
        else:
            feeds[value.name] = np.asarray(random.standard_normal(shape), dtype)
    return feeds


def assert_equal(before: Mapping[str, Array], after: Mapping[str, Array], loose: float = 1.0) -> None:
    """Check that two runs gave the same outputs: names, order, types, shapes, values within rounding."""
    assert list(after) == list(before)
    for name, expected in before.items():
        actual = after[name]
        assert (actual.dtype, actual.shape) == (expected.dtype, expected.shape), name
        tolerance = TOLERANCES.get(str(expected.dtype), 0) * loose
        if not tolerance or not expected.size:
            np.testing.assert_array_equal(actual, expected, err_msg=name)
            continue
        scale = float(np.nanmax(np.abs(np.where(np.isfinite(expected), expected, 0)))) + 1e-2
        np.testing.assert_allclose(actual / scale, expected / scale, rtol=0, atol=tolerance, err_msg=name)


def valid(proto: ModelProto) -> bool:
    """Tell whether onnx's checker takes a model; it refuses inputs of unknown rank, which onnxruntime runs."""
    try:
        onnx.checker.check_model(proto, full_check=True)
    except (onnx.checker.ValidationError, onnx.shape_inference.InferenceError):
        return False
    return True


def assert_same(before: ModelProto, after: ModelProto, seeds: Sequence[int] = (7, 8), loose: float = 1.0) -> None:
    """Check that a model is as valid as another one, and gives what that gives."""
    if valid(before):
        onnx.checker.check_model(after, full_check=True)
    for size, seed in enumerate(seeds, 2):
        feeds = feeds_for(before, seed, size)
        assert_equal(run(before, feeds), run(after, feeds), loose)


def fused(proto: ModelProto, **options: Any) -> Result:
    """Optimize without validation, by rules as they are, and check here that input and meaning are unchanged."""
    before = proto.SerializeToString(deterministic=True)
    result = optimize(proto, validate=False, verify_rules=False, **options)
    assert proto.SerializeToString(deterministic=True) == before
    assert_same(proto, result.model)
    return result


def graphs(proto: ModelProto) -> Iterator[GraphProto | onnx.FunctionProto]:
    """Yield the main graph, all nested graphs, and the bodies of functions."""
    stack: list[GraphProto | onnx.FunctionProto] = [proto.graph, *proto.functions]
    while stack:
        graph = stack.pop()
        yield graph
        for node in graph.node:
            for attribute in node.attribute:
                stack += [attribute.g] if attribute.HasField("g") else []
                stack += attribute.graphs


def nodes(proto: ModelProto) -> Iterator[NodeProto]:
    """Yield all nodes of all graphs."""
    for graph in graphs(proto):
        yield from graph.node


def ops(proto: ModelProto) -> dict[str, int]:
    """Count the operators of all graphs."""
    return dict(Counter(node.op_type for node in nodes(proto)))


def find(proto: ModelProto, op: str) -> NodeProto:
    """Return the only node of an operator."""
    (found,) = (node for node in nodes(proto) if node.op_type == op)
    return found


def weight(proto: ModelProto, name: str) -> Array:
    """Return the elements of an initializer or Constant node, in whatever graph it is."""
    for graph in graphs(proto):
        for tensor in graph.initializer if isinstance(graph, GraphProto) else ():
            if tensor.name == name:
                return numpy_helper.to_array(tensor)
        for node in graph.node:
            if node.op_type == "Constant" and node.output[0] == name:
                return numpy_helper.to_array(node.attribute[0].t)
    raise AssertionError(f"no weight is called {name}")


def weight_names(proto: ModelProto) -> set[str]:
    """Return the names of all initializers of all graphs."""
    return {tensor.name for graph in graphs(proto) if isinstance(graph, GraphProto) for tensor in graph.initializer}


def metadata(node: NodeProto) -> dict[str, str]:
    """Return a node's metadata."""
    return {entry.key: entry.value for entry in node.metadata_props}


def misses(result: Result, rule: str) -> list[str]:
    """Return why sites were near misses of a rule."""
    return [miss.reason for miss in result.report.near_misses if miss.rule == rule]


def rule_file(folder: Path, match: str, rewrite: str, inputs: str, *, name: str = "test-rule", head: str = "") -> Path:
    """Write a rule; `head`: further top-level keys; `inputs`: the lines of [inputs], and tables after it."""
    text = f'summary = "A rule for a test."\n{head}\n[inputs]\n{inputs}\n'
    text += f"[[match]]\ntext = '''\n{match}\n'''\n[rewrite]\ntext = '''\n{rewrite}\n'''\n"
    path = folder / f"{name}.toml"
    path.write_text(text, encoding="utf-8")
    return path


def tensor(name: str, array: Array) -> TensorProto:
    """Return an array as an initializer."""
    return numpy_helper.from_array(array, name)
