"""Both sides of a scene as ordinary ONNX models."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

from numpy.typing import NDArray
from onnx import GraphProto, ModelProto, NodeProto, OperatorSetIdProto, TypeProto, ValueInfoProto, helper, numpy_helper

from onnxfuse.model import attributes, schema
from onnxfuse.model.attributes import Attribute
from onnxfuse.prove.sides.element_types import element_types
from onnxfuse.prove.sides.scene import Scene, rewrite_lines
from onnxfuse.prove.sides.spelling import Line, Spelling, modernised
from onnxfuse.prove.sides.valid import checked
from onnxfuse.rulebook.instantiate import instantiate, resolve
from onnxfuse.rulebook.rule import Text, TextNode

IR_VERSION = 10


class Inapplicable(Exception):
    """A side cannot be written at an opset; the message says why."""


@dataclass
class _Writer:
    """Writes lines at one opset; `arrays` are the constants known so far."""

    scene: Scene
    opset: int
    values: Mapping[str, Attribute | None]
    types: Mapping[str, int]
    arrays: dict[str, NDArray[Any]]
    nodes: list[NodeProto] = field(default_factory=list)

    def write(self, line: Line) -> None:
        node = line.node
        if node.op == "Constant" and not node.domain:
            name = node.outputs[0]
            specs = {name: line.spec} if line.spec else {}
            (proto,) = instantiate([node], self.values, self.types[name], specs)
            self.arrays[name] = numpy_helper.to_array(proto.attribute[0].t)
            if (
                self.opset % 2 or self.opset < 9
            ):  # both ways in which models hold constants; Constant below opset 9 is no whole number
                return
        else:
            inputs, found = self._lowered(node, self._attributes(line))
            plain = replace(node, inputs=inputs, attributes=found)
            (proto,) = instantiate([plain], {}, self.scene.main, {})
            proto.name = node.label
        self.nodes.append(proto)

    def _attributes(self, line: Line) -> dict[str, Attribute]:
        """Return the attributes of a line at the opset, defaults written out where those have changed since."""
        node = line.node
        there = schema.defaults(node.op, self.opset, node.domain)
        found = dict(resolve(node, self.values))
        if self.scene.rule.keep.get(node.label) == node.op:
            found |= self.scene.kept.get(node.label, {})
        for name, default in schema.defaults(node.op, line.opset, node.domain).items():
            if (
                name in there
                and not attributes.same(default, there[name])
                and name not in found
                and default is not None
            ):
                found[name] = default
        for name in [name for name in found if name not in there]:
            if not self._is_default(node, name, found.pop(name)):
                raise Inapplicable(f"{node.op} has no attribute '{name}' at opset {self.opset}")
        return found

    def _is_default(self, node: TextNode, name: str, value: Attribute) -> bool:
        newest = schema.defaults(node.op, self.scene.rule.verified[-1], node.domain).get(name)
        return newest is not None and attributes.same(newest, value)

    def _lowered(self, node: TextNode, found: dict[str, Attribute]) -> tuple[tuple[str, ...], dict[str, Attribute]]:
        """Return inputs and attributes with the inputs that are attributes at this opset turned into those."""
        moved = schema.moved(node.op, self.opset, node.domain)
        for index, name in moved.items():
            source = node.inputs[index] if index < len(node.inputs) else ""
            if source and source not in self.arrays:
                raise Inapplicable(f"'{name}' of {node.op} must be a constant at opset {self.opset}")
            if source:
                found[name] = _plain(self.arrays[source])
        inputs = [name for index, name in enumerate(node.inputs) if index not in moved]
        while inputs and not inputs[-1]:
            inputs.pop()
        known = schema.schema(node.op, self.opset, node.domain)
        if known is not None and len(inputs) < known.min_input:
            raise Inapplicable(f"{node.op} has at least {known.min_input} inputs at opset {self.opset}")
        return tuple(inputs), found


def _plain(array: NDArray[Any]) -> Attribute:
    return array.item() if array.ndim == 0 else tuple(array.tolist())


def match_model(scene: Scene, text: Text, spelling: Spelling, opset: int) -> ModelProto:
    """Return the match side at an opset.

    Raises Inapplicable where an operator or attribute does not exist there, NotAllowed where it takes another type,
    Invalid if onnx finds something wrong with the model.
    """
    lines = [replace(line, node=_without(line.node, scene.shapes, scene.rule.inputs)) for line in spelling.lines]
    return _model(scene, lines, text.outputs, opset, scene.match_values)


def rewrite_model(scene: Scene, opset: int, like: Mapping[str, ValueInfoProto]) -> ModelProto:
    """Return the rewrite side at an opset; outputs whose shape onnx cannot infer are declared `like` those given.

    Raises what `match_model` does.
    """
    text = scene.rule.rewrite
    lines = [
        modern
        for node in rewrite_lines(scene.rule, scene.shapes)
        for modern in modernised(Line(node, text.opset, text.constants.get(node.outputs[0])))
    ]
    return _model(scene, lines, text.outputs, opset, scene.rewrite_values, like)


def _without(node: TextNode, present: Iterable[str], inputs: Iterable[str]) -> TextNode:
    absent = set(inputs) - set(present)
    if absent.isdisjoint(node.inputs):
        return node
    return replace(node, inputs=tuple("" if name in absent else name for name in node.inputs))


def _model(
    scene: Scene,
    lines: Sequence[Line],
    outputs: Sequence[str],
    opset: int,
    values: Mapping[str, Attribute | None],
    like: Mapping[str, ValueInfoProto] = MappingProxyType({}),
) -> ModelProto:
    for line in lines:
        if not schema.since(line.node.op, opset, line.node.domain) and line.node.op != "Constant":
            raise Inapplicable(f"there is no {line.node.op} at opset {opset}")
    types = element_types([line.node for line in lines], scene.types, values, opset, scene.main)
    writer = _Writer(scene, opset, values, types, {name: scene.arrays[name] for name in scene.weights})
    for line in lines:
        writer.write(line)
    graph = GraphProto(name=scene.rule.name.replace("-", "_"), node=_read(writer.nodes, outputs))
    used = {name for node in graph.node for name in node.input} - {name for node in graph.node for name in node.output}
    for name in scene.fed:
        graph.input.append(helper.make_tensor_value_info(name, types[name], scene.shapes[name]))
    graph.initializer.extend(numpy_helper.from_array(array, n) for n, array in writer.arrays.items() if n in used)
    graph.output.extend(_untyped(name, types.get(name, 0)) for name in outputs)
    model = ModelProto(ir_version=IR_VERSION, graph=graph, opset_import=[OperatorSetIdProto(version=opset)])
    return checked(model, like)


def _read(nodes: Sequence[NodeProto], outputs: Iterable[str]) -> list[NodeProto]:
    """Return the nodes without constants that nobody reads."""
    read = {name for node in nodes for name in node.input} | set(outputs)
    return [node for node in nodes if node.op_type != "Constant" or node.output[0] in read]


def _untyped(name: str, elem_type: int) -> ValueInfoProto:
    """Return the declaration of an output whose shape is left to inference."""
    return ValueInfoProto(name=name, type=TypeProto(tensor_type=TypeProto.Tensor(elem_type=elem_type)))
