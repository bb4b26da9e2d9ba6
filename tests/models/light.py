"""The whole CNNs that ship inside the onnx package, as shipped and with real weights in place of the flat ones."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
from onnx import ModelProto, NodeProto, numpy_helper

from tests.judge import Array

FOLDER = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"
NAMES = sorted(path.stem for path in FOLDER.glob("light_*.onnx"))
# The hidden layers of the classifiers: 4096 wide, they alone make vgg19 a 550 MB file.
_WIDE, _NARROW = 4096, 64
# Ranges of the operands that are positive. Gains are below 1, lest a chain of residuals ends in a flat softmax.
_POSITIVE = {("BatchNormalization", 1): (0.2, 0.8), ("BatchNormalization", 4): (0.5, 1.5), ("Mul", 1): (0.5, 1.5)}


def ramp(model: ModelProto) -> dict[str, Array]:
    """Return the inputs that the expected outputs were made from: `arange(n) / n`."""
    fixed = {tensor.name for tensor in model.graph.initializer}
    feeds = {}
    for value in model.graph.input:
        if value.name not in fixed:
            shape = [dim.dim_value or 1 for dim in value.type.tensor_type.shape.dim]
            count = int(np.prod(shape))
            feeds[value.name] = (np.arange(count).reshape(shape) / count).astype(np.float32)
    return feeds


def expected(name: str) -> Array:
    """Return the output that the onnx package keeps beside the model."""
    tensor = onnx.TensorProto()
    tensor.ParseFromString((FOLDER / f"{name}_output_0.pb").read_bytes())
    return numpy_helper.to_array(tensor)


def with_real_weights(name: str, seed: int = 0) -> ModelProto:
    """Return the model with random weights of a sensible scale for its generator nodes, and a narrower classifier."""
    model = onnx.load(FOLDER / f"{name}.onnx")
    shapes = {tensor.name: numpy_helper.to_array(tensor) for tensor in model.graph.initializer}
    rng = np.random.default_rng(seed)
    kept, generated = [], set()
    for node in model.graph.node:
        if node.op_type != "ConstantOfShape":
            kept.append(node)
            continue
        shape = [_NARROW if size == _WIDE else int(size) for size in shapes[node.input[0]]]
        values = _draw(rng, shape, *_use(model, node.output[0]))
        model.graph.initializer.append(numpy_helper.from_array(values.astype(np.float32), node.output[0]))
        model.graph.input.append(onnx.helper.make_tensor_value_info(node.output[0], onnx.TensorProto.FLOAT, shape))
        generated.add(node.input[0])
    del model.graph.node[:]
    model.graph.node.extend(kept)
    _drop(model, generated)
    return model


def _use(model: ModelProto, name: str) -> tuple[NodeProto, int]:
    """Return the node that reads a weight, and as which operand; an Unsqueeze between is looked through."""
    reader = next(node for node in model.graph.node if name in node.input)
    if reader.op_type == "Unsqueeze":
        return _use(model, reader.output[0])
    return reader, list(reader.input).index(name)


def _draw(rng: np.random.Generator, shape: list[int], reader: NodeProto, operand: int) -> Array:
    """Draw a weight for its use: kernels keep the variance of what they read, factors and variances are positive."""
    if len(shape) > 1:
        return rng.standard_normal(shape, np.float32) * np.float32(np.prod(shape[1:]) ** -0.5)
    low, high = _POSITIVE.get((reader.op_type, operand), (0, 0))
    return rng.uniform(low, high, shape) if high else rng.standard_normal(shape) * 0.1


def _drop(model: ModelProto, names: set[str]) -> None:
    read = {name for node in model.graph.node for name in node.input}
    for listed in (model.graph.initializer, model.graph.input):
        kept = [item for item in listed if item.name in read or item.name not in names]
        del listed[:]
        listed.extend(kept)
