"""The graphs that a rule says it must refuse."""

from __future__ import annotations

from collections.abc import Sequence

from onnx import ModelProto, OperatorSetIdProto

from onnxfuse.errors import OnnxfuseError
from onnxfuse.match.pattern import Pattern, compile_patterns
from onnxfuse.prove.instances import one_rule
from onnxfuse.prove.running.engine import apply
from onnxfuse.prove.sides.build import IR_VERSION
from onnxfuse.prove.sides.valid import Invalid, checked, parse_graph
from onnxfuse.prove.tally import Tally
from onnxfuse.rulebook.rule import Reject, Rule, Rulebook


def prove_rejects(book: Rulebook, rule: Rule) -> Tally:
    """Require that the engine refuses every reject of a rule."""
    tally = Tally()
    patterns = compile_patterns(one_rule(book, rule))
    for reject in rule.rejects:
        try:
            message = _problem(reject_model(rule, reject), patterns)
        except Invalid as error:
            message = str(error)
        tally.refused += 1
        if message:
            tally.problem("reject", f"'{reject.why}'", message)
    return tally


def _problem(model: ModelProto, patterns: Sequence[Pattern]) -> str:
    try:
        outcome = apply(model, patterns)
    except OnnxfuseError as error:
        return f"the engine fails: {error}"
    return "" if outcome.result is None else "the rule matches it"


def reject_model(rule: Rule, reject: Reject) -> ModelProto:
    """Return a reject as a model at the newest verified opset at which it is valid.

    Raises Invalid with what is wrong with it at the newest one of all, or where its text cannot be read.
    """
    graph = parse_graph(reject.text)
    problem = ""
    for opset in reversed(rule.verified):
        model = ModelProto(ir_version=IR_VERSION, graph=graph, opset_import=[OperatorSetIdProto(version=opset)])
        try:
            return checked(model)
        except Invalid as error:
            problem = problem or str(error)
    raise Invalid(f"it is valid at no verified opset: {problem}")
