"""Random surroundings for the match side of a rule: what may stand around a pattern in a real model."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

import numpy as np
import onnx
from hypothesis import strategies as st
from hypothesis.strategies import DataObject
from onnx import GraphProto, ModelProto, NodeProto, TensorProto, ValueInfoProto, helper

from ..helpers import Array

T = TypeVar("T")
COMMUTATIVE = {"Add", "Mul", "Max", "Min", "And", "Or", "Xor", "Equal", "Sum", "Mean"}
FLOATS = {TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.DOUBLE}


@dataclass
class Surroundings:
    """A match side with things put around it; `feeds` are its inputs, `done` says what was put there."""

    data: DataObject
    model: ModelProto
    feeds: dict[str, Array]
    done: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        inferred = onnx.shape_inference.infer_shapes(self.model, data_prop=True).graph
        self.infos = {info.name: info for info in (*inferred.input, *inferred.value_info, *inferred.output)}

    @property
    def graph(self) -> GraphProto:
        return self.model.graph

    def choose(self, choices: Sequence[T]) -> T:
        return self.data.draw(st.sampled_from(choices))

    def build(self) -> None:
        """Draw what is put around the pattern, from the inside out."""
        self.swap_operands()
        self.share_values()
        self.move_weights()
        self.choose([self.leave, self.repeat, self.into_branch, self.tail_into_branch, self.into_function])()
        self.put_before()
        self.put_after()

    def swap_operands(self) -> None:
        for node in self.graph.node:
            if node.op_type in COMMUTATIVE and len(node.input) == 2 and self.choose([False, True]):
                node.input.extend([node.input[1], node.input[0]])
                del node.input[:2]
                self.done.append(f"operands of {node.op_type} swapped")

    def share_values(self) -> None:
        """Let others read some values of the pattern, in ways that need the value or only its shape."""
        inner = [name for node in self.graph.node for name in node.output if name in self.infos]
        outputs = {info.name for info in self.graph.output}
        for name in self.data.draw(st.lists(st.sampled_from(inner), max_size=2, unique=True)):
            how = self.choose(["output", "read", "shape"])
            if how == "output" and name not in outputs:
                self.graph.output.append(self.infos[name])
            elif how == "read" and self.is_float(name):
                self.read(name, "Neg", self.infos[name].type.tensor_type.elem_type)
            elif how == "shape":
                self.read(name, "Shape", TensorProto.INT64)
            self.done.append(f"{name} shared ({how})")

    def is_float(self, name: str) -> bool:
        return self.infos[name].type.tensor_type.elem_type in FLOATS

    def read(self, name: str, op: str, elem_type: int) -> None:
        """Add a reader of a value whose result is an output."""
        self.graph.node.append(helper.make_node(op, [name], [f"{name}_{op}"]))
        self.graph.output.append(helper.make_tensor_value_info(f"{name}_{op}", elem_type, None))

    def move_weights(self) -> None:
        """Write weights as Constant nodes, or let a caller replace them."""
        for tensor in list(self.graph.initializer):
            how = self.choose(["weight", "weight", "constant", "overridable"])
            if how == "constant" and tensor.data_type in FLOATS:
                self.graph.initializer.remove(tensor)
                self.graph.node.insert(0, helper.make_node("Constant", [], [tensor.name], value=tensor))
            elif how == "overridable":
                self.graph.input.append(helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims))
            self.done.append(f"{tensor.name} {how}")

    def leave(self) -> None:
        """Leave the pattern in the main graph, once."""

    def repeat(self) -> None:
        """Have the whole pattern twice, on the same inputs and weights."""
        given = {name for node in self.graph.node for name in node.output if name}
        again = list(_renamed(self.graph.node, given, "_again"))
        self.graph.node.extend(again)
        for info in list(self.graph.output):
            copy = ValueInfoProto()
            copy.CopyFrom(info)
            copy.name += "_again"
            self.graph.output.append(copy)
        self.done.append("twice")

    def into_branch(self) -> None:
        self._branch(0)

    def tail_into_branch(self) -> None:
        self._branch(self.data.draw(st.integers(0, len(self.graph.node) - 1)))

    def _branch(self, first: int) -> None:
        """Move the nodes from `first` on into both branches of an If; those before stay outside."""
        outside, inside = list(self.graph.node)[:first], list(self.graph.node)[first:]
        given = {name for node in inside for name in node.output if name}
        results = [info for info in self.graph.output if info.name in given]
        if not results:
            return
        then = helper.make_graph(list(_renamed(inside, given, "_then")), "then", [], list(_named(results, "_then")))
        other = helper.make_graph(list(_renamed(inside, given, "_else")), "else", [], list(_named(results, "_else")))
        names = [info.name for info in results]
        node = helper.make_node("If", ["condition"], names, then_branch=then, else_branch=other)
        del self.graph.node[:]
        self.graph.node.extend([*outside, node])
        self.graph.input.append(helper.make_tensor_value_info("condition", TensorProto.BOOL, []))
        self.feeds["condition"] = np.asarray(self.choose([True, False]))
        self.done.append(f"in branches from node {first} on")

    def into_function(self) -> None:
        """Make the whole pattern a local function, its weights arguments."""
        given = {name for node in self.graph.node for name in node.output if name}
        read = dict.fromkeys(name for node in self.graph.node for name in node.input if name and name not in given)
        results = [info.name for info in self.graph.output]
        domain = self.model.opset_import[0]
        function = helper.make_function("local", "Pattern", list(read), results, list(self.graph.node), [domain])
        del self.graph.node[:]
        self.graph.node.append(helper.make_node("Pattern", list(read), results, domain="local"))
        self.model.functions.append(function)
        self.model.opset_import.append(helper.make_opsetid("local", 1))
        self.done.append("in a function")

    def put_before(self) -> None:
        """Let inputs come from a node, that others read too or not."""
        weights = {tensor.name for tensor in self.graph.initializer}
        for info in list(self.graph.input):
            if info.name in weights or info.name not in self.infos or not self.is_float(info.name):
                continue
            how = self.choose(["nothing", "Neg", "Identity", "shared"])
            if how in ("Neg", "Identity"):
                self.rename_input(info, how)
            elif how == "shared":
                self.read(info.name, "Neg", info.type.tensor_type.elem_type)
            self.done.append(f"{how} before {info.name}")

    def rename_input(self, info: ValueInfoProto, op: str) -> None:
        old, new = info.name, f"{info.name}_given"
        info.name = new
        self.feeds[new] = self.feeds.pop(old)
        self.graph.node.insert(0, helper.make_node(op, [new], [old]))

    def put_after(self) -> None:
        """Let the results go on to other nodes, and be outputs or not."""
        for info in list(self.graph.output):
            if info.name in self.infos and self.is_float(info.name) and self.choose([False, True]):
                self.read(info.name, "Neg", info.type.tensor_type.elem_type)
                if self.choose([False, True]):
                    self.graph.output.remove(info)
                self.done.append(f"Neg after {info.name}")


def _renamed(nodes: Sequence[NodeProto], names: set[str], suffix: str) -> Iterator[NodeProto]:
    """Yield copies of nodes whose values of these names have others."""

    def rename(name: str) -> str:
        return name + suffix if name in names else name

    for node in nodes:
        copy = NodeProto()
        copy.CopyFrom(node)
        del copy.input[:], copy.output[:]
        copy.input.extend(map(rename, node.input))
        copy.output.extend(map(rename, node.output))
        yield copy


def _named(infos: Sequence[ValueInfoProto], suffix: str) -> Iterator[ValueInfoProto]:
    for info in infos:
        yield helper.make_tensor_value_info(info.name + suffix, info.type.tensor_type.elem_type, None)
