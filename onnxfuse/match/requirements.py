"""What rules require of constants and attributes beside their guards: texts that must fold to true."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
from onnx import AttributeProto

from onnxfuse.model.attributes import Attribute
from onnxfuse.model.budget import Budget, TooMuch
from onnxfuse.model.constants import Constants, run_nodes
from onnxfuse.model.graph import Tensor
from onnxfuse.rulebook.instantiate import instantiate, main_type, widened
from onnxfuse.rulebook.rule import Bound, Requirement, Rule


def requirement_misses(
    rule: Rule,
    bindings: Mapping[str, Tensor | None],
    values: Mapping[str, Attribute | None],
    types: Mapping[str, int],
    constants: Constants,
) -> Iterator[str]:
    """Yield a sentence for each requirement of a rule that a match does not meet.

    `bindings`: what the inputs of the rule stand for; `values`: its attributes and the dims that are whole numbers;
    `types`: what its type variables mean.
    """
    for requirement in rule.require:
        unknown = _unknown(requirement, bindings, values)
        if unknown:
            yield f"'{unknown}' is not known, so it cannot be told whether {requirement.why}"
        elif failure := _failure(rule, requirement, bindings, values, types, constants):
            yield failure


def _unknown(
    requirement: Requirement, bindings: Mapping[str, Tensor | None], values: Mapping[str, Attribute | None]
) -> str:
    """Return a name whose value a requirement needs and that has none; "" if there is no such name."""
    operands = {name: bindings.get(name) for name in requirement.text.inputs}
    absent = [name for name, value in operands.items() if value is None or not value.constant]
    bound = [v.name for node in requirement.text.nodes for v in node.attributes.values() if isinstance(v, Bound)]
    return next((name for name in (*absent, *(n for n in bound if not _is_plain(values.get(n)))) if name), "")


def _is_plain(value: Attribute | None) -> bool:
    """Tell whether a value is there, and is not an attribute that each call of a local function sets anew."""
    return value is not None and not (isinstance(value, AttributeProto) and value.ref_attr_name)


def _failure(
    rule: Rule,
    requirement: Requirement,
    bindings: Mapping[str, Tensor | None],
    values: Mapping[str, Attribute | None],
    types: Mapping[str, int],
    constants: Constants,
) -> str:
    """Return a sentence if a requirement does not hold, or cannot be computed; "" if it holds."""
    text = requirement.text
    operands = {name: bindings[name] for name in text.inputs}
    arrays = {name: constants.array(value) for name, value in operands.items() if value is not None}
    feeds = {name: widened(array) for name, array in arrays.items()}
    nodes = instantiate(text.nodes, values, main_type(rule, types), text.constants, wide=True)
    try:
        results = run_nodes(nodes, feeds, list(text.outputs), text.opset, Budget.of(feeds.values()))
        holds = bool(np.all(results[0]))
    except TooMuch as error:
        return f"it cannot be told whether {requirement.why}: {error}"
    except Exception:  # constants that do not fit each other: NumPy raises what it likes
        holds = False
    return "" if holds else f"it does not hold that {requirement.why}"
