"""Lines of a text as ONNX nodes: attributes filled in, constants given the element type they are to have."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
from onnx import AttributeProto, NodeProto, TensorProto, helper, numpy_helper

from onnxfuse.model import attributes
from onnxfuse.model.attributes import Attribute
from onnxfuse.rulebook.rule import Bound, ConstantSpec, Rule, TextNode

_FLOATS = frozenset({TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.BFLOAT16, TensorProto.DOUBLE})


def main_type(rule: Rule, types: Mapping[str, int]) -> int:
    """Return the element type that floating-point constants of a rule's texts have where its variables mean `types`."""
    return types.get(next(iter(rule.types)), TensorProto.FLOAT)


def widened(array: np.ndarray) -> np.ndarray:
    """Return a floating-point array as double, as `instantiate` with `wide` wants its operands; others as they are."""
    return array.astype(np.float64) if array.dtype.kind == "f" or array.dtype.name == "bfloat16" else array


def resolve(line: TextNode, values: Mapping[str, Attribute | None]) -> dict[str, Attribute]:
    """Return the attributes of a line with `@name` replaced by its value; one that has no value is left out."""
    found = {n: values.get(v.name) if isinstance(v, Bound) else v for n, v in line.attributes.items()}
    return {name: value for name, value in found.items() if value is not None}


def instantiate(
    lines: Iterable[TextNode],
    values: Mapping[str, Attribute | None],
    elem_type: int,
    constants: Mapping[str, ConstantSpec],
    wide: bool = False,
) -> list[NodeProto]:
    """Return the lines as nodes whose floating-point constants have `elem_type`.

    `wide`: constants and the results of Cast are double wherever they would be floating point, for folding.
    """
    elem_type = TensorProto.DOUBLE if wide else elem_type
    return [_node(line, resolve(line, values), elem_type, constants, wide) for line in lines]


def _node(
    line: TextNode, values: dict[str, Attribute], elem_type: int, constants: Mapping[str, ConstantSpec], wide: bool
) -> NodeProto:
    if line.op == "Constant" and not line.domain:
        spec = constants.get(line.outputs[0])
        values = {"value": _constant(values, elem_type, spec.value if spec else None)}
    elif wide and line.op == "Cast" and values.get("to") in _FLOATS:
        values["to"] = int(TensorProto.DOUBLE)
    proto = NodeProto(op_type=line.op, domain=line.domain, input=line.inputs, output=line.outputs)
    proto.attribute.extend(attributes.write(name, _retyped(value, elem_type)) for name, value in values.items())
    return proto


def _constant(values: Mapping[str, Attribute], elem_type: int, exact: float | None) -> Attribute:
    """Return the `value` attribute of a Constant line; `exact` replaces a number that float32 cannot hold."""
    ((kind, value),) = values.items()
    if kind == "value" and isinstance(value, AttributeProto):
        array = numpy_helper.to_array(value.t)
    elif kind in ("value_float", "value_floats"):
        array = np.asarray(value, np.float64)
    else:
        array = np.asarray(value, np.int64)
    if exact is not None:
        array = np.asarray(exact, np.float64)
    return _tensor_attribute(array, elem_type)


def _tensor_attribute(array: np.ndarray, elem_type: int) -> AttributeProto:
    if array.dtype.kind == "f":
        array = array.astype(helper.tensor_dtype_to_np_dtype(elem_type))
    return AttributeProto(name="value", type=AttributeProto.TENSOR, t=numpy_helper.from_array(array))


def _retyped(value: Attribute, elem_type: int) -> Attribute:
    """Return an attribute with a floating-point tensor in it changed to `elem_type`."""
    if isinstance(value, AttributeProto) and value.type == AttributeProto.TENSOR and value.t.data_type in _FLOATS:
        return _tensor_attribute(numpy_helper.to_array(value.t), elem_type)
    return value
