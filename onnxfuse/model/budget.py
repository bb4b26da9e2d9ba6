"""How much may be computed on behalf of a rule file: a few characters of it can ask for terabytes, or for years."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from onnx import GraphProto, ModelProto, NodeProto, OperatorSetIdProto, ValueInfoProto, helper, numpy_helper
from onnx import shape_inference as inference

from onnxfuse.model import schema

# Elements that may be made of nothing but numbers: 8 MB in double.
MADE: Final = 1 << 20
# Values as large as all operands together that may be computed of them; a fold of weights has some ten lines.
COPIES: Final = 32
# Steps of operators that bring each element of one operand together with those of another: some ten seconds.
STEPS: Final = 1 << 34
# Operands up to this many elements may be a shape or scales, so that inference needs to know them.
_SHAPE_LIKE: Final = 64


class TooMuch(Exception):
    """A rule asks for more elements or steps than it may; the message says which operator did."""


@dataclass
class Budget:
    """What is left to be spent."""

    elements: int
    steps: int = STEPS

    @classmethod
    def of(cls, operands: Iterable[NDArray[Any]]) -> Budget:
        """Return the budget for computing with these operands."""
        return cls(MADE + COPIES * sum(operand.size for operand in operands))

    def spend(self, op: str, elements: int, steps: int = 0) -> None:
        """Take off what an operator is about to need; raises TooMuch if that is more than is left."""
        self.elements -= max(0, elements)
        self.steps -= steps
        if self.elements < 0:
            raise TooMuch(f"{op} would make too many elements")
        if self.steps < 0:
            raise TooMuch(f"{op} would take too many steps")

    def spend_on(self, node: NodeProto, operands: Sequence[NDArray[Any] | None], opset: int) -> None:
        """Take off what a node of the default domain is about to need, as onnx infers its results.

        Raises TooMuch also where the size of a result cannot be told.
        """
        sizes = [operand.size for operand in operands if operand is not None]
        steps = 0 if node.op_type in schema.BROADCASTING else prod(max(1, size) for size in sizes)
        self.spend(node.op_type, _result_elements(node, operands, opset), steps)


def _result_elements(node: NodeProto, operands: Sequence[NDArray[Any] | None], opset: int) -> int:
    """Return how many elements the results of a node have; raises TooMuch if that cannot be told."""
    graph = GraphProto(name="size", node=[node])
    for name, operand in dict(zip(node.input, operands, strict=True)).items():
        if operand is None:
            continue
        if operand.size <= _SHAPE_LIKE:
            graph.initializer.append(numpy_helper.from_array(operand, name))
        else:
            elem_type = helper.np_dtype_to_tensor_dtype(np.dtype(operand.dtype))
            graph.input.append(helper.make_tensor_value_info(name, elem_type, operand.shape))
    graph.output.extend(ValueInfoProto(name=name) for name in node.output if name)
    model = ModelProto(ir_version=10, graph=graph, opset_import=[OperatorSetIdProto(version=opset)])
    found = inference.infer_shapes(model, strict_mode=True).graph.output
    # A dim that depends on the elements, as of NonZero, is at most as long as there are operands' elements.
    longest = sum(operand.size for operand in operands if operand is not None)
    return sum(_elements(info, longest, node.op_type) for info in found)


def _elements(info: ValueInfoProto, longest: int, op: str) -> int:
    if not info.type.tensor_type.HasField("shape"):
        raise TooMuch(f"it cannot be told how much {op} would make")
    dims = info.type.tensor_type.shape.dim
    return prod(dim.dim_value if dim.HasField("dim_value") else longest for dim in dims)
