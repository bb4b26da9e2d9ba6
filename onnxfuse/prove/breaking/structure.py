"""Breaking one thing of a model's structure at a time: who reads a value, which operator, attribute or operand."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from onnx import (
    GraphProto,
    ModelProto,
    TensorProto,
    ValueInfoProto,
    defs,
    helper,
    numpy_helper,
    shape_inference,
)

from onnxfuse.model import attributes, schema
from onnxfuse.model.attributes import Attribute
from onnxfuse.prove.sides.element_types import concrete


@dataclass(frozen=True)
class Breakage:
    """A model in which one thing is not as in the match side, and what that is; `feeds` where those are not free."""

    what: str
    model: ModelProto
    feeds: Mapping[str, NDArray[Any]] = field(default_factory=dict)


@dataclass(frozen=True)
class Base:
    """A match side to be broken, with the types of all its values; `weights` are the inputs of the rule among them."""

    model: ModelProto
    types: Mapping[str, ValueInfoProto]
    weights: frozenset[str]

    @classmethod
    def of(cls, model: ModelProto, weights: frozenset[str]) -> Base:
        """Return a model as a base."""
        graph = shape_inference.infer_shapes(model, data_prop=True).graph
        known = {info.name: info for info in (*graph.value_info, *graph.input, *graph.output)}
        for tensor in graph.initializer:
            known[tensor.name] = helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims)
        return cls(model, known, weights)

    @property
    def graph(self) -> GraphProto:
        """The graph."""
        return self.model.graph

    @property
    def opset(self) -> int:
        """The version of the default domain."""
        return int(self.model.opset_import[0].version)

    def changed(self, change: Callable[..., None], *arguments: object) -> ModelProto:
        """Return a copy with a change made to its graph, by a function of that and of these arguments."""
        copy = ModelProto()
        copy.CopyFrom(self.model)
        change(copy.graph, *arguments)
        return copy

    def inner(self) -> Iterator[str]:
        """Yield the values that nodes give to other nodes, constants apart."""
        outputs = {info.name for info in self.graph.output}
        for node in self.graph.node:
            if node.op_type != "Constant":
                yield from (name for name in node.output if name not in outputs)

    def uses(self) -> Iterator[tuple[int, int, str]]:
        """Yield node number, input number and name of every use of a value."""
        for number, node in enumerate(self.graph.node):
            for index, name in enumerate(node.input):
                if name:
                    yield number, index, name


def structural(base: Base) -> Iterator[Breakage]:
    """Yield the breakages of a model's structure."""
    yield from _taps(base)
    yield from _swaps(base)
    yield from _other_operators(base)
    yield from _other_values(base)
    yield from _attributes(base)
    yield from _more_outputs(base)
    yield from _more_inputs(base)


def _taps(base: Base) -> Iterator[Breakage]:
    for name in base.inner():
        info = base.types.get(name)
        if info is None:
            continue
        yield Breakage(f"'{name}' is also a graph output", base.changed(_give, info))
        yield Breakage(f"'{name}' has another reader", base.changed(_read, info))
        yield Breakage(f"'{name}' is read in a nested graph", base.changed(_read_inside, info))


def _like(info: ValueInfoProto, name: str) -> ValueInfoProto:
    copy = ValueInfoProto()
    copy.CopyFrom(info)
    copy.name = name
    return copy


def _read(graph: GraphProto, info: ValueInfoProto) -> None:
    graph.node.append(helper.make_node("Identity", [info.name], ["tapped"]))
    graph.output.append(_like(info, "tapped"))


def _read_inside(graph: GraphProto, info: ValueInfoProto) -> None:
    branch = helper.make_graph(
        [helper.make_node("Identity", [info.name], ["inside"])], "branch", [], [_like(info, "inside")]
    )
    graph.initializer.append(numpy_helper.from_array(np.asarray(True), "condition"))
    graph.node.append(helper.make_node("If", ["condition"], ["tapped"], then_branch=branch, else_branch=branch))
    graph.output.append(_like(info, "tapped"))


def _swaps(base: Base) -> Iterator[Breakage]:
    for number, node in enumerate(base.graph.node):
        for first in range(len(node.input)):
            for second in range(first + 1, len(node.input)):
                if node.input[first] != node.input[second]:
                    what = f"the operands {first + 1} and {second + 1} of {node.op_type} are swapped"
                    yield Breakage(what, base.changed(_swap, number, first, second))


def _give(graph: GraphProto, info: ValueInfoProto) -> None:
    graph.output.append(info)


def _swap(graph: GraphProto, number: int, first: int, second: int) -> None:
    node = graph.node[number]
    node.input[first], node.input[second] = node.input[second], node.input[first]


# Operators of the same signature that compute something else.
_SIBLINGS = {
    "Add": "Sub", "Sub": "Add", "Mul": "Div", "Div": "Mul", "Sqrt": "Abs", "Reciprocal": "Neg", "Erf": "Tanh",
    "Tanh": "Sigmoid", "ReduceMean": "ReduceMax", "Sigmoid": "Tanh", "Pow": "Mul", "Relu": "Abs", "Exp": "Abs",
}  # fmt: skip


def _other_operators(base: Base) -> Iterator[Breakage]:
    for number, node in enumerate(base.graph.node):
        if sibling := _SIBLINGS.get(node.op_type):
            what = f"'{node.output[0]}' is computed by {sibling}, not by {node.op_type}"
            yield Breakage(what, base.changed(_rename, number, sibling))


def _rename(graph: GraphProto, number: int, operator: str) -> None:
    graph.node[number].op_type = operator


# How many other values of the same type are tried in the place of one.
_OTHERS = 2


def _other_values(base: Base) -> Iterator[Breakage]:
    """Let one use of a value read another one: a new input, or a value of the same type that is there already."""
    uses = list(base.uses())
    names = [name for _, _, name in uses]
    for number, index, name in uses:
        info = base.types.get(name)
        if info is None:
            continue
        where = f"input {index + 1} of {base.graph.node[number].op_type}"
        if names.count(name) > 1:
            what = f"{where} is another value than '{name}'"
            yield Breakage(what, base.changed(_redirect, number, index, "other", _like(info, "other")))
        alike = [n for n in dict.fromkeys(names) if n != name and n in base.types and base.types[n].type == info.type]
        for other in (*alike[:_OTHERS], *alike[-1:][: len(alike) > _OTHERS]):
            what = f"{where} is '{other}' instead of '{name}'"
            yield Breakage(what, base.changed(_redirect, number, index, other))


def _redirect(graph: GraphProto, number: int, index: int, name: str, new: ValueInfoProto | None = None) -> None:
    if new is not None:
        graph.input.append(new)
    graph.node[number].input[index] = name


def _attributes(base: Base) -> Iterator[Breakage]:
    for number, node in enumerate(base.graph.node):
        if node.op_type == "Constant":
            continue
        present = attributes.read_all(node)
        known = schema.schema(node.op_type, base.opset, node.domain)
        for name, spec in ({} if known is None else known.attributes).items():
            default = schema.defaults(node.op_type, base.opset, node.domain)[name]
            for value in _other_attributes(present.get(name, default), spec.type):
                what = f"{node.op_type} has {name} = {value!r}"
                yield Breakage(what, base.changed(_set, number, name, value))


def _other_attributes(value: Attribute | None, kind: defs.OpSchema.AttrType) -> Iterator[Attribute]:
    kinds = defs.OpSchema.AttrType
    if kind == kinds.INT:
        old = value if isinstance(value, int) else 0
        yield from {1 - old if old in (0, 1) else old - 1, old + 1}
    elif kind == kinds.FLOAT:
        yield (value if isinstance(value, float) else 0.0) * 1.5 + 0.125
    elif kind == kinds.INTS and isinstance(value, tuple):
        yield from {
            tuple(int(v) - 1 for v in value),
            tuple(int(v) + 1 for v in value),
            tuple(map(int, value[::-1])),
        } - {value}
    elif kind == kinds.INTS:
        yield from ((2,) * length for length in (1, 2, 3, 4))


def _set(graph: GraphProto, number: int, name: str, value: Attribute) -> None:
    node = graph.node[number]
    kept = [attribute for attribute in node.attribute if attribute.name != name]
    del node.attribute[:]
    node.attribute.extend([*kept, attributes.write(name, value)])


def _more_outputs(base: Base) -> Iterator[Breakage]:
    for number, node in enumerate(base.graph.node):
        known = schema.schema(node.op_type, base.opset, node.domain)
        more = len(known.outputs) - len(node.output) if known is not None else 0
        if more > 0 and node.op_type != "Constant":
            formal = known.outputs[len(node.output)] if known is not None else None
            elem_type = concrete(formal.type_str) if formal is not None else None
            info = _like(base.types[node.output[0]], "more") if node.output[0] in base.types else ValueInfoProto()
            if elem_type or (formal is not None and formal.type_str == "T1"):
                info.type.tensor_type.elem_type = elem_type or TensorProto.BOOL
            what = f"the second output of {node.op_type} is read"
            yield Breakage(what, base.changed(_read_more, number, info))


def _read_more(graph: GraphProto, number: int, info: ValueInfoProto) -> None:
    graph.node[number].output.append("more")
    graph.output.append(info)


def _more_inputs(base: Base) -> Iterator[Breakage]:
    """Give a node an optional input that its text leaves out."""
    for number, node in enumerate(base.graph.node):
        known = schema.schema(node.op_type, base.opset, node.domain)
        if known is None or len(node.input) >= len(known.inputs) or not node.input:
            continue
        for index in range(len(node.input), len(known.inputs)):
            first = base.types.get(node.input[0])
            elem_type = concrete(known.inputs[index].type_str) or (first.type.tensor_type.elem_type if first else 1)
            for array in (np.ones((), np.float32), np.ones(4, np.float32)):
                for kind in dict.fromkeys((elem_type, TensorProto.BOOL)):
                    tensor = numpy_helper.from_array(array.astype(helper.tensor_dtype_to_np_dtype(kind)), "more")
                    what = f"{node.op_type} has an input {index + 1}"
                    yield Breakage(what, base.changed(_feed_more, number, index, tensor))


def _feed_more(graph: GraphProto, number: int, index: int, tensor: TensorProto) -> None:
    node = graph.node[number]
    node.input.extend([""] * (index - len(node.input)))
    node.input.append("more")
    graph.initializer.append(tensor)
