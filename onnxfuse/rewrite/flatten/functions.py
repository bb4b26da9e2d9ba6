"""Calls of local functions, with the function's body in their place.

onnx.inliner does that too, but says neither what it did nor why a function stayed, cannot leave a single call as it is,
and drops the metadata and documentation of a call.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping

from onnx import AttributeProto, FunctionProto, GraphProto, ModelProto, NodeProto, defs

from onnxfuse.model import schema
from onnxfuse.model.functions import Key, all_nodes, called, called_by, key_of
from onnxfuse.model.graph import subgraphs
from onnxfuse.model.weights.packing import tensors
from onnxfuse.rewrite.flatten.bodies import Parts, instantiate, place, record
from onnxfuse.rewrite.flatten.names import Names
from onnxfuse.rewrite.steps import FUNCTION_INLINING
from onnxfuse.rewrite.trace import Fusion

# Runtimes have kernels for operators of these domains, and of those below them.
_RUNTIMES_DOMAINS = ("ai.onnx", "com.microsoft", "com.ms", "com.nvidia", "org.openvinotoolkit", "trt")

# A function with more elements in Constants stays if there are several calls: each would get a copy.
_MAX_REPEATED_ELEMENTS = 256


def inline_calls(proto: ModelProto, matched: Collection[tuple[str, str]]) -> list[Fusion]:
    """Put the bodies of functions in the place of their calls in the graph, and take out those nobody calls any more.

    A function stays if a runtime may have a kernel of its name, if rules match calls of it (`matched`: domains and
    names), or if its body means something else at the versions of operators that the model imports.
    """
    inliner = _Inliner(proto, matched)
    fusions = list(inliner.run(proto.graph, ""))
    kept = called(proto)
    for index in reversed(range(len(proto.functions))):
        if key_of(proto.functions[index]) in inliner.inlined - kept:
            del proto.functions[index]
    return fusions


class _Inliner:
    def __init__(self, proto: ModelProto, matched: Collection[tuple[str, str]]) -> None:
        self._proto, self._matched = proto, matched
        self._names = Names(proto)
        self._functions = {key_of(function): function for function in proto.functions}
        self._imports = {schema.domain_of(entry.domain): entry.version for entry in proto.opset_import}
        calls = Counter(called_by(node) for body in (proto.graph, *proto.functions) for node in all_nodes(body))
        self._may_go = {key for key in self._functions if self._may_be_inlined(key, calls[key])}
        self.inlined: set[Key] = set()

    def run(self, graph: GraphProto, path: str) -> Iterator[Fusion]:
        """Replace the calls in a graph and in those in it."""
        placed: dict[int, Parts] = {}
        for index, node in enumerate(graph.node):
            for name, inner in subgraphs(node):
                yield from self.run(inner, f"{path}{node.name or node.op_type}.{name}/")
            if called_by(node) in self._may_go and (parts := self._expand(node)):
                step, outputs = FUNCTION_INLINING, tuple(node.output)
                placed[index] = parts
                yield Fusion(step, step, path, (record(node),), parts.records(), outputs=outputs)
        if placed:
            place(graph, placed)

    def _expand(self, call: NodeProto) -> Parts | None:
        """Return what stands in the place of a call, calls in the body of the function replaced as well.

        None if the body means something else at the versions of operators that the model imports.
        """
        function = FunctionProto()
        function.CopyFrom(self._functions[called_by(call)])
        if not self._means_the_same(function):
            return None
        self.inlined.add(called_by(call))
        _bind(function, call)
        given = dict.fromkeys(function.input, "") | dict(zip(function.input, call.input, strict=False))
        parts = instantiate(function, given, list(call.output), self._names, f"{call.name or call.op_type}/")
        _keep_origin(parts.nodes, call)
        inlined: list[NodeProto] = []
        for node in parts.nodes:
            for _, graph in subgraphs(node):
                list(self.run(graph, ""))  # part of what is recorded for the call
            inner = self._expand(node) if called_by(node) in self._may_go else None
            inlined += inner.nodes if inner else [node]
        return Parts(inlined)

    def _may_be_inlined(self, key: Key, calls: int) -> bool:
        domain, name, _ = key
        kernel = not domain or defs.has(name, domain) or domain.startswith(_RUNTIMES_DOMAINS)
        if kernel or (domain, name) in self._matched or self._is_recursive(key):
            return False
        return calls < 2 or _elements(self._functions[key]) <= _MAX_REPEATED_ELEMENTS

    def _is_recursive(self, key: Key) -> bool:
        seen: set[Key] = set()
        waiting = [key]
        while waiting:
            for node in all_nodes(self._functions[waiting.pop()]):
                inner = called_by(node)
                if inner == key:
                    return True
                if inner in self._functions and inner not in seen:
                    seen.add(inner)
                    waiting.append(inner)
        return False

    def _means_the_same(self, function: FunctionProto) -> bool:
        """Tell whether the operators of a function are the same at the versions that the model imports.

        Domains that it does not import yet are imported.
        """
        imports = {schema.domain_of(entry.domain): entry.version for entry in function.opset_import} or self._imports
        used = {(node.op_type, schema.domain_of(node.domain)) for node in all_nodes(function)}
        for op, domain in used:
            ours, its = self._imports.get(domain), imports.get(domain, 0)
            if ours not in (None, its) and not 0 < schema.since(op, its, domain) == schema.since(op, ours, domain):
                return False
        for domain in sorted({domain for _, domain in used} & (imports.keys() - self._imports.keys())):
            self._imports[domain] = imports[domain]
            self._proto.opset_import.add(domain=domain, version=imports[domain])
        return True


def _elements(function: FunctionProto) -> int:
    return sum(math.prod(tensor.dims) for tensor in tensors(function))


def _bind(function: FunctionProto, call: NodeProto) -> None:
    """Put the arguments of a call, or their defaults, in the place of references to the function's attributes."""
    values = {value.name: value for value in (*function.attribute_proto, *call.attribute)}
    for node in all_nodes(function):
        bound = [bound for value in node.attribute if (bound := _bound(value, values)) is not None]
        del node.attribute[:]
        node.attribute.extend(bound)


def _bound(attribute: AttributeProto, values: Mapping[str, AttributeProto]) -> AttributeProto | None:
    """Return an attribute with its reference resolved; None if that leads to one without value and default."""
    if not attribute.ref_attr_name:
        return attribute
    value = values.get(attribute.ref_attr_name)
    if value is None:
        return None
    made = AttributeProto()
    made.CopyFrom(value)
    made.name = attribute.name
    return made


def _keep_origin(nodes: Iterable[NodeProto], call: NodeProto) -> None:
    """Give nodes the metadata and documentation of the call that they stand for, where they have none themselves."""
    for node in nodes:
        said = {entry.key for entry in node.metadata_props}
        node.metadata_props.extend(entry for entry in call.metadata_props if entry.key not in said)
        node.doc_string = node.doc_string or call.doc_string
