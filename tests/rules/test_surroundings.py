"""Every rule in random surroundings: whatever stands around a pattern, the model gives what it gave."""

from __future__ import annotations

import os

import pytest
from hypothesis import HealthCheck, Phase, given, note, settings
from hypothesis import strategies as st
from hypothesis.strategies import DataObject
from onnx import ModelProto

from onnxfuse.pipeline import optimize
from onnxfuse.prove.instances import Case, cases
from onnxfuse.prove.running.judge import Judge
from onnxfuse.prove.running.runtime import CannotRun
from onnxfuse.prove.sides.draw import RANDOM
from onnxfuse.prove.sides.scene import make_scene, type_choices
from onnxfuse.prove.sides.valid import Invalid, checked
from onnxfuse.rulebook.load import load_rulebook
from onnxfuse.rulebook.rule import Rule

from ..helpers import Array, valid
from .surroundings import Surroundings

BOOK = load_rulebook()
# ONNXFUSE_EXAMPLES=500 looks longer, by hand.
EXAMPLES = int(os.environ.get("ONNXFUSE_EXAMPLES", "4"))
SEED = 0
SETTINGS = settings(
    max_examples=24,
    derandomize=True,
    database=None,
    deadline=None,
    phases=[Phase.generate, Phase.shrink],
    suppress_health_check=list(HealthCheck),
)


def drawn_case(rule: Rule, data: DataObject) -> Case | None:
    """Draw one spelling of a rule, at an opset, of a type, on a sample."""
    sample = data.draw(st.integers(0, len(rule.samples) - 1))
    types = data.draw(st.sampled_from(list(type_choices(rule))))
    scene = make_scene(rule, rule.samples[sample], types, SEED)
    found = list(cases(scene, BOOK, sample))
    return data.draw(st.sampled_from(found)) if found else None


def surrounded(case: Case, data: DataObject) -> Surroundings:
    proto = ModelProto()
    proto.CopyFrom(case.model)
    made = Surroundings(data, proto, {name: case.scene.arrays[name] for name in case.scene.fed})
    made.build()
    return made


def judge_of(feeds: dict[str, Array], model: ModelProto) -> Judge:
    types = {info.name: info.type.tensor_type.elem_type for info in model.graph.input}
    return Judge(feeds, types, list(feeds), SEED, (RANDOM,))


@pytest.mark.parametrize("name", [rule.name for rule in BOOK.rules])
@settings(SETTINGS, max_examples=EXAMPLES)
@given(data=st.data())
def test_outputs_never_change(name: str, data: DataObject) -> None:
    rule = next(rule for rule in BOOK.rules if rule.name == name)
    case = drawn_case(rule, data)
    if case is None:
        return
    made = surrounded(case, data)
    note(f"{case}: {'; '.join(made.done)}")
    judge = judge_of(made.feeds, made.model)
    try:
        reference = judge.reference(checked(made.model))
    except (CannotRun, Invalid):
        return
    result = optimize(made.model, validate=False).model
    assert [info.name for info in result.graph.output] == [info.name for info in made.model.graph.output]
    assert [info.name for info in result.graph.input] == [info.name for info in made.model.graph.input]
    _, problem = judge.differences(reference, checked(result))
    assert not problem, problem


@pytest.mark.parametrize("family", sorted({rule.path.parent.name for rule in BOOK.rules}))
def test_patterns_are_found_in_their_surroundings(family: str) -> None:
    """The property above says nothing where no rule fires: in many surroundings one must."""
    rules = [rule for rule in BOOK.rules if rule.path.parent.name == family]
    fused: list[bool] = []

    @SETTINGS
    @given(data=st.data())
    def look(data: DataObject) -> None:
        case = drawn_case(data.draw(st.sampled_from(rules)), data)
        made = None if case is None else surrounded(case, data)
        if made is not None and valid(made.model):
            fused.append(bool(optimize(made.model, validate=False).fusions))

    look()
    assert sum(fused) > len(fused) / 4, f"{sum(fused)} of {len(fused)}"
