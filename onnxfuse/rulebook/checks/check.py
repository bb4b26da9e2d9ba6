"""What the parts of a rule say of each other: signatures, names, labels, constants, forms."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from math import prod

import numpy as np
from onnx import AttributeProto, numpy_helper

from onnxfuse.rulebook.absence import present_lines
from onnxfuse.rulebook.fold import computed_from
from onnxfuse.rulebook.rule import FORM, ONES, REST, Bound, Rule, Text, TextNode
from onnxfuse.rulebook.syntax.kinds import Problem, Where, suggestion
from onnxfuse.rulebook.syntax.limits import MAX_SAMPLE_ELEMENTS

# What a Constant of a text may hold; in a match, a list of floating-point numbers cannot be compared.
_CONSTANTS = ("value", "value_int", "value_ints", "value_float")
_REWRITE_CONSTANTS = (*_CONSTANTS, "value_floats")


def rule_problems(rule: Rule) -> Iterator[Problem]:
    """Yield what is wrong between the parts of one rule."""
    texts: list[tuple[Text, Where]] = [(text, ("match", index)) for index, text in enumerate(rule.matches)]
    for text, where in (*texts, (rule.rewrite, ("rewrite",))):
        for message in (*_signature_problems(text, rule), *text_problems(text, where[0] == "match")):
            yield Problem(where, f"text '{text.name}': {message}")
        labels = {node.label: node.op for node in text.nodes}
        for label, op in rule.keep.items():
            if labels.get(label) != op:
                yield Problem(("keep",), f"keep names '{label}', but text '{text.name}' has no {op} labelled so")
    yield from _absent_problems(rule)
    yield from _requirement_problems(rule)
    yield from _derive_problems(rule)
    yield from _name_problems(rule)
    yield from _sample_problems(rule)


def form_problems(text: Text) -> Iterator[str]:
    """Yield what is wrong within one spelling of a form."""
    yield from text_problems(text, match=True)
    for name in set(text.constants).difference(*(node.outputs for node in text.nodes)):
        yield f"no line gives '{name}', which [constants] names"


def _signature_problems(text: Text, rule: Rule) -> Iterator[str]:
    if set(text.inputs) != set(rule.inputs):
        yield f"it has the inputs {', '.join(text.inputs)}, but [inputs] has {', '.join(rule.inputs)}"
    if text.outputs != rule.rewrite.outputs:
        yield f"it gives {', '.join(text.outputs)}, the rewrite {', '.join(rule.rewrite.outputs)}"


def text_problems(text: Text, match: bool) -> Iterator[str]:
    """Yield what is wrong within one text: names given twice or never, constants that are none."""
    known: set[str] = set()
    for name in text.inputs:
        if not name or name in known:
            yield f"the input '{name}' is there twice" if name else "an input has no name"
        known.add(name)
    for node in text.nodes:
        yield from _line_problems(node, known, _CONSTANTS if match else _REWRITE_CONSTANTS)
        if node.domain == FORM and not match:
            yield f"a rewrite cannot call a form ('{node.op}'): write one spelling"
        known.update(node.outputs)
    if not text.outputs:
        yield "it has no outputs"
    for name in text.outputs:
        if name not in known or name in text.inputs:
            yield f"no line gives the output '{name}'"


def _line_problems(node: TextNode, known: Collection[str], kinds: Collection[str]) -> Iterator[str]:
    for name in node.inputs:
        if name and name not in known:
            yield f"'{name}' is neither an input nor given by a line before{suggestion(name, known)}"
    for name in node.outputs:
        if name in known or node.outputs.count(name) > 1:
            yield f"'{name}' is given twice"
    if not any(node.outputs):
        yield f"a {node.op} gives nothing that has a name"
    for name, value in node.attributes.items():
        if isinstance(value, AttributeProto) and value.type in (AttributeProto.GRAPH, AttributeProto.GRAPHS):
            yield f"'{name}' of {node.op} holds a graph: a text is a flat list of operators"
    if node.op == "Constant" and not node.domain:
        yield from _constant_problems(node, kinds)


def _constant_problems(node: TextNode, kinds: Collection[str]) -> Iterator[str]:
    if node.inputs or len(node.outputs) != 1 or len(node.attributes) != 1 or not set(node.attributes) <= set(kinds):
        yield f"a Constant has no inputs, one output and one of {', '.join(kinds)}"
        return
    ((kind, value),) = node.attributes.items()
    if isinstance(value, Bound):
        if kind == "value":
            yield "a Constant binds '@name' to value_float, value_int or value_ints"
    elif kind == "value" and not (isinstance(value, AttributeProto) and _is_tensor(value)):
        yield "the value of a Constant is a tensor of numbers with as many of them as its dims say"
    elif kind == "value_float" and not isinstance(value, float):
        yield "a value_float is a number with 'float': <value_float: float = 2.0>"
    elif kind == "value_int" and not isinstance(value, int):
        yield "a value_int is a whole number"
    elif kind == "value_ints" and not (isinstance(value, tuple) and all(isinstance(i, int) for i in value)):
        yield "a value_ints is a list of whole numbers"


def _is_tensor(value: AttributeProto) -> bool:
    """Tell whether an attribute is a tensor that can be read: no strings, no files, no missing elements."""
    if value.type != AttributeProto.TENSOR or value.t.external_data or value.t.data_location:
        return False
    try:
        dtype = numpy_helper.to_array(value.t).dtype
        return bool(np.issubdtype(dtype, np.number) or dtype == np.bool_) and prod(value.t.dims) > 0
    except (ValueError, TypeError, MemoryError):
        return False


def _absent_problems(rule: Rule) -> Iterator[Problem]:
    for name, guard in rule.inputs.items():
        if guard.optional and any(name in n.inputs for n in rule.rewrite.nodes) and name not in rule.absent:
            yield Problem(("inputs", name), f"input '{name}' may be absent: say in [absent] what it stands for then")
    for name, node in rule.absent.items():
        if name not in rule.inputs or not rule.inputs[name].optional:
            hint = suggestion(name, [n for n, guard in rule.inputs.items() if guard.optional])
            yield Problem(("absent", name), f"'{name}' in [absent] is no optional input{hint}")
        for read in node.inputs if node else ():
            if read and (read not in rule.inputs or rule.inputs[read].optional):
                yield Problem(
                    ("absent", name), f"what stands for an absent '{name}' reads '{read}', not an input that is there"
                )

    left = {name for line in present_lines(rule, ()) for name in line.outputs}
    for name in rule.rewrite.outputs:
        if name not in left:
            yield Problem(("absent",), f"nothing gives '{name}' where the optional inputs are absent")


def _requirement_problems(rule: Rule) -> Iterator[Problem]:
    constant = {name for name, guard in rule.inputs.items() if guard.const}
    for index, requirement in enumerate(rule.require):
        where: Where = ("require", index)
        text = requirement.text
        for message in text_problems(text, match=False):
            yield Problem(where, message)
        for name in text.inputs:
            if name not in constant:
                yield Problem(where, f"'{name}' is no constant input of the rule{suggestion(name, constant)}")
        if len(text.outputs) != 1 or text.outputs[0] not in computed_from(text.nodes, text.inputs):
            yield Problem(where, "it must compute one truth value, from operators of the default domain")


def _derive_problems(rule: Rule) -> Iterator[Problem]:
    constant = [name for name, guard in rule.inputs.items() if guard.const]
    folded = computed_from(rule.rewrite.nodes, constant)
    for attribute, value in rule.derive.items():
        if value not in folded:
            hint = suggestion(value, folded)
            yield Problem(
                ("derive", attribute), f"'{value}' is no value that the rewrite computes from constants{hint}"
            )


def _name_problems(rule: Rule) -> Iterator[Problem]:
    """Yield names of tables that mean nothing in the rule."""
    lines = [node for text in (*rule.matches, *(r.text for r in rule.require)) for node in text.nodes]
    bound = {v.name for n in (*lines, *rule.rewrite.nodes) for v in n.attributes.values() if isinstance(v, Bound)}
    for name in rule.attributes:
        if name not in bound | set(rule.derive):
            yield Problem(("attributes", name), f"no text binds '@{name}'{suggestion(name, bound)}")
    for name in set(rule.rewrite.constants).difference(*(node.outputs for node in (*lines, *rule.rewrite.nodes))):
        yield Problem(("constants", name), f"no line gives '{name}'")
    for name in rule.draw:
        if name not in rule.inputs:
            yield Problem(("draw", name), f"'{name}' in [draw] is no input{suggestion(name, rule.inputs)}")


def _sample_problems(rule: Rule) -> Iterator[Problem]:
    known = {*rule.inputs, *_dim_names(rule)}
    for index, sample in enumerate(rule.samples):
        where: Where = ("sample", index)
        for name, dims in sample.shapes.items():
            if name not in known:
                hint = suggestion(name, known)
                yield Problem((*where, "shapes", name), f"'{name}' in shapes is no input and no dim{hint}")
            if prod(dims) > MAX_SAMPLE_ELEMENTS:
                most = f"{MAX_SAMPLE_ELEMENTS:,}"
                yield Problem(
                    (*where, "shapes", name), f"'{name}' has more than {most} elements: smaller ones show as much"
                )
        optional = {name for name, guard in rule.inputs.items() if guard.optional}
        optional |= {name for name, spec in rule.attributes.items() if "default" in spec}
        for name in sample.absent:
            if name not in optional:
                hint = suggestion(name, optional)
                yield Problem(
                    (*where, "absent"), f"'{name}' in absent is no optional input and no attribute with a default{hint}"
                )


def _dim_names(rule: Rule) -> set[str]:
    dims = {dim for guard in rule.inputs.values() for dim in (*(guard.dims or ()), *(guard.onto or ()))}
    return {str(dim).removesuffix(REST).removeprefix(ONES) if dim != REST else REST for dim in dims}
