"""Putting a replacement where its match stands; names, scopes, provenance and dead nodes are looked after here."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from onnx import AttributeProto, NodeProto, TensorProto

from onnxfuse.match.search import Match
from onnxfuse.model.attributes import Attribute
from onnxfuse.model.constants import Constants
from onnxfuse.model.editable import EditableModel
from onnxfuse.model.graph import Node, Scope, Tensor, Value, Weight, mark_constant
from onnxfuse.model.shapes import UNKNOWN
from onnxfuse.rewrite.replacement import Refused, Replacement, kept_attributes, lowered
from onnxfuse.rewrite.trace import Fusion, Site, WeightRecord, records
from onnxfuse.rulebook.instantiate import resolve
from onnxfuse.rulebook.rule import TextNode

RULE_KEY = "onnxfuse.rule"
FROM_KEY = "onnxfuse.from"


class Splicer:
    """Replaces matches in an editable model."""

    def __init__(self, model: EditableModel, constants: Constants) -> None:
        self._model = model
        self._constants = constants

    def splice(self, match: Match, replacement: Replacement) -> tuple[Fusion, list[Node]]:
        """Replace a match and return the record of it, and the new nodes.

        Raises Refused, with the graph as it was, if an argument cannot be written at the model's opset.
        """
        scope, outputs, anchor = match.root.scope, match.outputs, _anchor(match)
        values: dict[str, Tensor] = {n: v if v is not None else Value("") for n, v in match.bindings.items()}
        weights = self._new_weights(match, replacement, values)
        built = [self._build(match, replacement, line, values, outputs) for line in replacement.lines]
        before = records(match.nodes)
        operands = [value for node in match.nodes for value in node.inputs]
        for node in match.nodes:
            node.detach()
        nodes = [self._place(anchor, line, *parts) for line, parts in zip(replacement.lines, built, strict=True)]
        _tell_origin(match, before_names=[record.name or record.op for record in before], nodes=nodes)
        constants = [self._constant(scope, weight) for weight in weights] if scope.is_function else []
        scope.replace(anchor, [*constants, *nodes])
        if not scope.is_function:
            scope.added.extend(weight.tensor for weight in weights)
        remove_dead(operands)
        made = tuple(WeightRecord.of(weight) for weight in weights)
        site = site_of(match)
        return Fusion(site.rule, match.pattern.name, site.scope, before, records(nodes), made, site.outputs), nodes

    def _new_weights(self, match: Match, replacement: Replacement, values: dict[str, Tensor]) -> list[Weight]:
        """Make initializers of the folded constants, and of attributes that the replacement reads as inputs."""
        read = {name for line in replacement.lines for name in line.inputs if name}
        tensors = dict(replacement.folded)
        for name in read:
            bound = match.bindings.get(name)
            if isinstance(bound, Weight) and not bound.name:
                tensors[name] = bound.tensor
        weights: list[Weight] = []
        for name, tensor in sorted(tensors.items()):
            copy = TensorProto()
            copy.CopyFrom(tensor)
            copy.name = self._model.fresh(f"{match.root.outputs[0].name}/{name}")
            weights.append(Weight(copy))
            values[name] = weights[-1]
        return weights

    def _build(
        self,
        match: Match,
        replacement: Replacement,
        line: TextNode,
        values: dict[str, Tensor],
        outputs: dict[str, Value],
    ) -> tuple[str, list[Tensor], list[Value], dict[str, Attribute]]:
        """Return name, inputs, outputs and attributes of the node that a line becomes."""
        kept = match.labels.get(line.label) if match.rule.keep.get(line.label) else None
        opset = match.root.scope.opsets.get(line.domain, 0)
        arguments = [values[name] if name else Value("") for name in line.inputs]
        inputs, extra = lowered(line.op, opset, arguments, self._constants)
        while inputs and not inputs[-1].name:
            inputs.pop()
        attrs = {**kept_attributes(match, line), **resolve(line, replacement.attributes), **extra}
        results = [self._result(match, replacement, name, outputs) for name in line.outputs]
        values.update(zip(line.outputs, results, strict=True))
        base = results[0].name or match.root.outputs[0].name
        name = kept.name if kept and kept.name else self._model.fresh(f"{base}/{line.op}")
        return name, inputs, results, attrs

    def _result(self, match: Match, replacement: Replacement, name: str, outputs: dict[str, Value]) -> Value:
        if name in outputs:
            return outputs[name]
        info = replacement.types.get(name, UNKNOWN)
        return Value(self._model.fresh(f"{match.root.outputs[0].name}/{name}"), info.elem_type, info.dims)

    def _constant(self, scope: Scope, weight: Weight) -> Node:
        """Return a Constant node whose value is read in place of a new weight."""
        value = Value(weight.name, weight.elem_type, weight.dims)
        reread(weight, value)
        return constant_node(scope, value, weight.tensor, self._model.fresh(f"{weight.name}/Constant"))

    def _place(
        self,
        anchor: Node,
        line: TextNode,
        name: str,
        inputs: list[Tensor],
        outputs: list[Value],
        attrs: dict[str, Attribute],
    ) -> Node:
        node = Node(line.op, line.domain, anchor.scope, inputs, outputs, attrs, name, NodeProto())
        node.position = anchor.position
        node.rebuilt = True
        return node


def site_of(match: Match) -> Site:
    """Return where a match is."""
    names = tuple(value.name for value in match.outputs.values())
    return Site(match.rule.name, match.root.scope.path, names)


def _anchor(match: Match) -> Node:
    """Return the node of a match in whose place its new nodes go, so that the graph stays in topological order.

    That is the last one.  If another output of the match is read before, it is the first one, provided that all inputs
    are there by then.
    """
    first, last = match.nodes[0], match.nodes[-1]
    if len(match.outputs) == 1 or _reads_after(match, last):
        return last
    givers = [match.root.scope.holder(v.producer) for v in match.bindings.values() if v is not None and v.producer]
    if all(g is None or g in match.nodes or g.position < first.position for g in givers) and _reads_after(match, first):
        return first
    raise Refused("one of its outputs is read before all of its inputs have been computed")


def _reads_after(match: Match, node: Node) -> bool:
    """Tell whether everybody outside a match who reads its outputs stands after a node."""
    users = [user for value in match.outputs.values() for user in value.outputs]
    holders = [match.root.scope.holder(user) for user in users]
    return all(h is None or h in match.nodes or h.position > node.position for h in holders)


def constant_node(scope: Scope, value: Value, tensor: TensorProto, name: str) -> Node:
    """Return a node that gives a tensor as `value`, for a function body, which can have no initializers."""
    attribute = AttributeProto(name="value", type=AttributeProto.TENSOR, t=tensor)
    node = Node("Constant", "", scope, [], [value], {"value": attribute}, name, NodeProto())
    node.rebuilt = True
    mark_constant(node)
    return node


def reread(old: Tensor, new: Tensor) -> list[Node]:
    """Let every reader of one value read another, and return the readers."""
    users = list(dict.fromkeys(old.outputs))
    for user in users:
        for index, operand in enumerate(user.inputs):
            if operand is old:
                user.inputs[index] = new
    return users


def _tell_origin(match: Match, before_names: Sequence[str], nodes: Iterable[Node]) -> None:
    """Write the rule and the old nodes into the new ones' metadata, with the metadata of those the root comes first."""
    ordered = [match.root, *(node for node in match.nodes if node is not match.root)]
    metadata: dict[str, str] = {}
    for old in ordered:
        for entry in old.proto.metadata_props if old.proto is not None else ():
            metadata.setdefault(entry.key, entry.value)
    metadata[RULE_KEY] = match.rule.name
    metadata[FROM_KEY] = ", ".join(before_names)
    for node in nodes:
        assert node.proto is not None
        if match.root.proto is not None:
            node.proto.doc_string = match.root.proto.doc_string
        for key, value in metadata.items():
            node.proto.metadata_props.add(key=key, value=value)


def remove_dead(values: Iterable[Tensor]) -> None:
    """Take out the nodes above these values that nobody needs any more."""
    stack = list(values)
    while stack:
        node = stack.pop().producer
        if node is None or not node.alive or any(v.pinned or v.outputs for v in node.outputs):
            continue
        stack.extend(node.inputs)
        node.detach()
