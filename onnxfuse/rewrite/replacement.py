"""What a match is to be replaced by: constants folded, types known, the result's type and shape checked beforehand."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from onnx import (
    AttributeProto,
    GraphProto,
    ModelProto,
    NodeProto,
    OperatorSetIdProto,
    TensorProto,
    helper,
    numpy_helper,
    shape_inference,
)

from onnxfuse.match.conditions import show
from onnxfuse.match.search import Match
from onnxfuse.model import schema, shapes
from onnxfuse.model.attributes import Attribute, write
from onnxfuse.model.budget import COPIES, MADE, Budget
from onnxfuse.model.constants import Constants, run_nodes
from onnxfuse.model.graph import Dims, Tensor
from onnxfuse.model.shapes import TypeInfo
from onnxfuse.rulebook.absence import present_lines
from onnxfuse.rulebook.fold import computed_from
from onnxfuse.rulebook.instantiate import instantiate, main_type, widened
from onnxfuse.rulebook.rule import Bound, TextNode


class Refused(Exception):
    """A match cannot be replaced; the message says why."""


@dataclass(frozen=True)
class Replacement:
    """The lines that become nodes, the constants they read that are new, and the types of the values they give."""

    lines: tuple[TextNode, ...]
    folded: Mapping[str, TensorProto]
    types: Mapping[str, TypeInfo]
    attributes: Mapping[str, Attribute | None]


class Planner:
    """Plans replacements; what onnx infers about equal ones is remembered."""

    def __init__(self, constants: Constants) -> None:
        self._constants = constants
        self._inferred: dict[object, dict[str, TypeInfo]] = {}
        self._folded: dict[object, dict[str, NDArray[np.generic]]] = {}

    def plan(self, match: Match) -> Replacement:
        """Return the replacement of a match.

        Raises Refused if a constant cannot be folded, or if an output would change its element type or shape.
        """
        values: dict[str, Attribute | None] = {**match.attributes, **match.dims}
        lines = _present_lines(match)
        folds = _foldable(match, lines)
        folding = [line for line in lines if folds.issuperset(line.outputs)]
        _check_foldable(folding, values, match.rule.derive)
        values |= self._derived(match, folding, values)
        _check_values(lines, values)
        emitted = tuple(line for line in lines if not folds.issuperset(line.outputs))
        wanted = sorted({name for line in emitted for name in line.inputs if name in folds})
        folded = self._fold(match, folding, values, wanted)
        types = self._infer(match, folding, emitted, values)
        _check_outputs(match, types)
        tensors = {
            name: _rounded(name, array, types, main_type(match.rule, match.types)) for name, array in folded.items()
        }
        return Replacement(emitted, tensors, types, values)

    def _derived(
        self, match: Match, folding: Sequence[TextNode], values: Mapping[str, Attribute | None]
    ) -> dict[str, Attribute]:
        """Return the attributes that are the values of folded tensors."""
        names = match.rule.derive
        arrays = self._fold(match, folding, values, sorted(set(names.values()))) if names else {}
        return {name: _plain(arrays[source]) for name, source in names.items()}

    def _fold(
        self, match: Match, lines: Sequence[TextNode], values: Mapping[str, Attribute | None], wanted: list[str]
    ) -> dict[str, NDArray[np.generic]]:
        """Compute constants in float64; those that depend on attributes alone are computed once for equal ones."""
        if not lines:
            return {}
        read = {name for line in lines for name in line.inputs}
        bound = {name: value for name, value in match.bindings.items() if value is not None and name in read}
        key = None if bound else (match.pattern, tuple(wanted), _key(values))
        if key not in self._folded:
            feeds = {name: widened(self._constants.array(value)) for name, value in bound.items()}
            nodes = instantiate(
                lines, values, main_type(match.rule, match.types), match.rule.rewrite.constants, wide=True
            )
            results = _computed(nodes, feeds, wanted, match.rule.rewrite.opset)
            if key is None:
                return dict(zip(wanted, results, strict=True))
            self._folded[key] = dict(zip(wanted, results, strict=True))
        return self._folded[key]

    def _infer(
        self,
        match: Match,
        folding: Sequence[TextNode],
        emitted: Sequence[TextNode],
        values: Mapping[str, Attribute | None],
    ) -> dict[str, TypeInfo]:
        """Return the types of all values of the replacement, as onnx infers them from those of its inputs."""
        bound = {
            name: value for name, value in match.bindings.items() if value is not None and name in match.rule.inputs
        }
        small = {name: self._integers(value) for name, value in bound.items()}
        key = (
            match.pattern,
            tuple((name, value.elem_type, value.dims) for name, value in bound.items()),
            tuple(None if array is None else array.tobytes() for array in small.values()),
            tuple(_key(kept_attributes(match, line)) for line in (*folding, *emitted) if line.label),
            _key(values),
        )
        if key not in self._inferred:
            self._inferred[key] = _run_inference(match, folding, emitted, values, bound, small)
        return self._inferred[key]

    def _integers(self, value: Tensor) -> NDArray[np.int64] | None:
        """Return the elements of a small integer constant, which may be a shape or axes."""
        return self._constants.small(value) if value.constant and value.elem_type == TensorProto.INT64 else None


def _key(values: Mapping[str, Attribute | None]) -> str:
    return repr(sorted(values.items(), key=lambda item: item[0]))


def _computed(
    nodes: list[NodeProto], feeds: dict[str, NDArray[np.generic]], wanted: list[str], opset: int
) -> list[NDArray[np.generic]]:
    try:
        return run_nodes(nodes, feeds, wanted, opset, Budget.of(feeds.values()))
    except Exception as error:  # weights that do not fit each other: NumPy raises what it likes
        raise Refused(f"its new weights cannot be computed: {error}") from error


def _plain(array: NDArray[np.generic]) -> Attribute:
    """Return an array as the plain value of an attribute."""
    return array.item() if array.ndim == 0 else tuple(array.tolist())


def _check_foldable(
    lines: Sequence[TextNode], values: Mapping[str, Attribute | None], derived: Collection[str]
) -> None:
    """Refuse to compute with what is not known, or is an attribute that each call of a local function sets anew."""
    for line in lines:
        _check_values([line], {**values, **dict.fromkeys(derived)})
        for value in line.attributes.values():
            found = values.get(value.name) if isinstance(value, Bound) else value
            if found is None and line.op == "Constant":
                raise Refused(f"'{line.outputs[0]}' is not known as a number")
            if isinstance(found, AttributeProto) and found.ref_attr_name:
                raise Refused(f"a new weight would depend on the function's attribute '{found.ref_attr_name}'")


def _check_values(lines: Sequence[TextNode], values: Mapping[str, Attribute | None]) -> None:
    for line in lines:
        for value in line.attributes.values():
            if isinstance(value, Bound) and value.name not in values:
                raise Refused(f"'{value.name}' is not known as a number")


def _present_lines(match: Match) -> list[TextNode]:
    """Return the lines of the rewrite, as they are with the inputs that are there."""
    return list(present_lines(match.rule, {name for name, value in match.bindings.items() if value is not None}))


def _foldable(match: Match, lines: Sequence[TextNode]) -> frozenset[str]:
    """Return the names that lines compute from constants alone; what the match gives must be given by a node."""
    constant = {name for name, value in match.bindings.items() if value is not None and value.constant}
    return computed_from([line for line in lines if match.outputs.keys().isdisjoint(line.outputs)], constant)


def _run_inference(
    match: Match,
    folding: Sequence[TextNode],
    emitted: Sequence[TextNode],
    values: Mapping[str, Attribute | None],
    bound: Mapping[str, Tensor],
    small: Mapping[str, NDArray[np.int64] | None],
) -> dict[str, TypeInfo]:
    """Infer the types after each line that becomes a node, so that none is inferred from what would be too large.

    Inference itself takes memory for each element of a vector that might be a shape.
    """
    lines = (*folding, *emitted)
    nodes = _typed_nodes(match, lines, values)
    graph = GraphProto(name=match.rule.name)
    for name, value in bound.items():
        array = small[name]
        if array is not None:
            graph.initializer.append(numpy_helper.from_array(array, name))
        elif value.elem_type is not None:
            graph.input.append(shapes.value_info(name, TypeInfo(value.elem_type, value.dims)))
    types: dict[str, TypeInfo] = {}
    for count in range(len(folding) + 1, len(lines) + 1):
        del graph.node[:]
        graph.node.extend(node for node in nodes[:count] if not shapes.refers(node))
        types = _inferred(graph, match.rule.rewrite.opset)
        _check_sizes(match, types)
    return types


def _typed_nodes(match: Match, lines: Sequence[TextNode], values: Mapping[str, Attribute | None]) -> list[NodeProto]:
    nodes = instantiate(lines, values, main_type(match.rule, match.types), match.rule.rewrite.constants)
    for line, node in zip(lines, nodes, strict=True):
        node.attribute.extend(write(name, value) for name, value in kept_attributes(match, line).items())
    return nodes


def _inferred(graph: GraphProto, opset: int) -> dict[str, TypeInfo]:
    model = ModelProto(ir_version=10, graph=graph, opset_import=[OperatorSetIdProto(version=opset)])
    try:
        return shapes.known_types(shape_inference.infer_shapes(model, strict_mode=True, data_prop=True).graph)
    except shape_inference.InferenceError as error:
        raise Refused(f"the replacement would not be valid here: {str(error).splitlines()[-1]}") from error


def kept_attributes(match: Match, line: TextNode) -> Mapping[str, Attribute]:
    """Return the attributes that a labelled line takes over from the node that was matched under its label."""
    node = match.labels[line.label] if match.rule.keep.get(line.label) == line.op else None
    return {} if node is None else {name: value for name, value in node.attrs.items() if name not in line.attributes}


def _check_outputs(match: Match, types: Mapping[str, TypeInfo]) -> None:
    """Refuse a replacement that would change the element type or the shape of a value that others read."""
    for name, value in match.outputs.items():
        after = types.get(name, shapes.UNKNOWN)
        if value.elem_type and after.elem_type and value.elem_type != after.elem_type:
            raise Refused(f"'{value.name}' would change its element type")
        if value.dims is not None and after.dims is not None and not _compatible(value.dims, after.dims):
            raise Refused(f"the shape of '{value.name}' would change from {show(value.dims)} to {show(after.dims)}")


def _check_sizes(match: Match, types: Mapping[str, TypeInfo]) -> None:
    """Refuse a replacement that would need far more memory than what it replaces, as far as the shapes are known."""
    bound = [value for value in match.bindings.values() if value is not None]
    limit = MADE + COPIES * sum(_elements(value.dims) for value in bound)
    for name, info in types.items():
        if _elements(info.dims) > limit:
            raise Refused(f"its value '{name}' would have {_elements(info.dims):,} elements")


def _elements(dims: Dims) -> int:
    """Return the number of elements as far as it is known: dims without a number count as 1."""
    return math.prod(dim for dim in dims or () if isinstance(dim, int))


def _compatible(before: Dims, after: Dims) -> bool:
    assert before is not None and after is not None
    return len(before) == len(after) and all(
        a == b or not (isinstance(a, int) and isinstance(b, int)) for a, b in zip(before, after, strict=True)
    )


def _rounded(name: str, array: NDArray[np.generic], types: Mapping[str, TypeInfo], main_type: int) -> TensorProto:
    """Return a folded constant in its element type, rounded once from float64; Refused if it is not finite there."""
    if array.dtype.kind == "f":
        elem_type = types.get(name, shapes.UNKNOWN).elem_type or main_type
        with np.errstate(over="ignore", invalid="ignore"):
            array = array.astype(helper.tensor_dtype_to_np_dtype(elem_type))
        if not np.isfinite(array.astype(np.float64)).all():
            raise Refused(f"folding gives values for '{name}' that are not finite in {array.dtype}")
    return numpy_helper.from_array(np.ascontiguousarray(array).reshape(array.shape), name)


def lowered(
    op: str, opset: int, arguments: Sequence[Tensor], constants: Constants
) -> tuple[list[Tensor], dict[str, Attribute]]:
    """Return the inputs and the extra attributes with which `op` takes these arguments at `opset`.

    Raises Refused if an argument must be an attribute there and is not constant.
    """
    inputs, extra = list(arguments), {}
    for index, name in schema.moved(op, opset).items():
        if index < len(inputs) and (value := inputs[index]).name:
            if not value.constant:
                raise Refused(f"'{name}' of {op} must be a constant at opset {opset}")
            array = constants.array(value)
            extra[name] = _plain(array)
    kept = [value for index, value in enumerate(inputs) if index not in schema.moved(op, opset)]
    return kept, extra
