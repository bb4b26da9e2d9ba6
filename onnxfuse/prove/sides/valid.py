"""Checking models and reading graphs written as text, with one kind of error for all that can be wrong."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from types import MappingProxyType
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import GraphProto, ModelProto, ValueInfoProto, numpy_helper, shape_inference

from onnxfuse.prove.sides.draw import draw
from onnxfuse.rulebook.syntax.limits import MAX_MODEL_ELEMENTS


class Invalid(Exception):
    """A model or graph is not valid; the message says why in one line."""


def last_line(error: BaseException) -> str:
    """Return the last line of an error's text, which is where onnx says what is wrong."""
    lines = [line for line in str(error).splitlines() if line.strip()]
    return lines[-1].strip() if lines else type(error).__name__


def checked(model: ModelProto, like: Mapping[str, ValueInfoProto] = MappingProxyType({})) -> ModelProto:
    """Return a model with the types of its outputs filled in, after onnx's full check of it.

    Where onnx infers no shape for an output, it is declared to be that of the output of another model, `like`.
    Raises Invalid, also where the values of the model would be large.
    """
    try:
        inferred = shape_inference.infer_shapes(model, check_type=True, strict_mode=True, data_prop=True)
        check_size(inferred.graph)
        whole = ModelProto()
        whole.CopyFrom(model)
        del whole.graph.output[:]
        for info in inferred.graph.output:
            known = info.type.tensor_type.HasField("shape")
            whole.graph.output.append(info if known else like.get(info.name, info))
        onnx.checker.check_model(whole)
    except (onnx.checker.ValidationError, shape_inference.InferenceError, ValueError) as error:
        raise Invalid(last_line(error)) from error
    return whole


def check_size(graph: GraphProto) -> None:
    """Refuse a graph whose values, as far as their shapes are known, have too many elements to be run as a test.

    Raises Invalid.
    """
    total = 0
    for info in (*graph.input, *graph.value_info, *graph.output):
        total += prod(dim.dim_value if dim.HasField("dim_value") else 1 for dim in info.type.tensor_type.shape.dim)
        if total > MAX_MODEL_ELEMENTS:
            raise Invalid(
                f"with '{info.name}' its values have more than {MAX_MODEL_ELEMENTS:,} elements: "
                "smaller ones show as much"
            )


def parse_graph(text: str) -> GraphProto:
    """Read a graph; a weight that is declared without numbers gets random ones.

    Raises Invalid, also where the values that it declares would be large.
    """
    try:
        graph = onnx.parser.parse_graph(text)
    except onnx.parser.ParseError as error:
        raise Invalid(f"its text is no ONNX graph: {last_line(error)}") from error
    check_size(graph)
    given = {name for node in graph.node for name in node.output}
    declared = [info for info in graph.value_info if info.name not in given]
    generator = np.random.default_rng(0)
    for info in declared:
        graph.value_info.remove(info)
        graph.initializer.append(numpy_helper.from_array(_random(info, generator), info.name))
    return graph


def _random(info: ValueInfoProto, generator: np.random.Generator) -> NDArray[Any]:
    tensor = info.type.tensor_type
    shape = tuple(dim.dim_value for dim in tensor.shape.dim)
    return draw(shape, tensor.elem_type, (0.5, 2.0), generator)
