"""Generated near misses: one thing of a match side broken, after which nothing may match, or the result be the same."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray
from onnx import ModelProto, TensorProto, helper, shape_inference

from onnxfuse.errors import OnnxfuseError
from onnxfuse.match.pattern import Pattern, compile_patterns
from onnxfuse.prove.breaking.data import of_data
from onnxfuse.prove.breaking.structure import Base, Breakage, structural
from onnxfuse.prove.guards import Refusal, prove_guards
from onnxfuse.prove.instances import one_rule, result_problem, type_name
from onnxfuse.prove.running.engine import Outcome, apply
from onnxfuse.prove.running.judge import Judge
from onnxfuse.prove.running.runtime import CannotRun
from onnxfuse.prove.sides.build import Inapplicable, match_model
from onnxfuse.prove.sides.draw import RANDOM, draw
from onnxfuse.prove.sides.element_types import NotAllowed
from onnxfuse.prove.sides.scene import Scene, Unusable, make_scene
from onnxfuse.prove.sides.spelling import Spelling, spellings
from onnxfuse.prove.sides.valid import Invalid, check_size, checked
from onnxfuse.prove.tally import Tally
from onnxfuse.rulebook.rule import Rule, Rulebook, Sample, Text

# Types to try on a rule that does not name them.
_OTHER_TYPES = (TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.DOUBLE, TensorProto.INT32)

# One in how many ways is taken to break the first models, the second of which is square, and the others.
_SHARES = (1, 2)
_OTHER_SHARES = 12

# The length that all dims of a square sample have, so that a wrong axis does not show in the shapes.
_SQUARE = 4


def prove_near_misses(book: Rulebook, rule: Rule, sample: int, seed: int, exhaustive: bool = False) -> Tally:
    """Break the match sides of a sample, and require that nothing matches or that the result is the same.

    With the first sample it is also found out whether the rejects cover all guards that matter.
    """
    tally = Tally()
    patterns = compile_patterns(one_rule(book, rule))
    refused: list[Refusal] = []
    for case, breakage in near_misses(book, rule, sample, seed, exhaustive):
        verdict, reasons = judge(rule, patterns, breakage, seed)
        if verdict is None:
            continue
        tally.refused += 1
        if verdict:
            tally.problem("near-miss", f"{case}, {breakage.what}", verdict)
        if reasons:
            refused.append(Refusal(case, breakage, reasons[0]))
    if sample == 0:
        prove_guards(book, rule, refused, lambda p, breakage: judge(rule, p, breakage, seed)[0] or "", tally)
    return tally


def near_misses(
    book: Rulebook, rule: Rule, sample: int, seed: int, exhaustive: bool = False
) -> Iterator[tuple[str, Breakage]]:
    """Yield broken match sides with the cases they come from.

    The first spelling is broken in every way; most of them are the same in all spellings, samples and opsets, so those
    share them out, if not `exhaustive`.
    """
    others = max(_OTHER_SHARES, sum(1 for text in rule.matches for _ in spellings(text, book)))
    for number, (case, scene, model) in enumerate(_bases(book, rule, sample, seed)):
        base = Base.of(model, scene.weights)
        first = sample == 0 and number < len(_SHARES)
        share = 1 if exhaustive else _SHARES[number] if first else others
        for index, breakage in enumerate(chain(structural(base), of_data(base))):
            if (index + number + sample) % share == 0:
                yield case, breakage
    for case, model in _other_models(book, rule, sample, seed):
        yield case, Breakage("as it stands", model)


def _bases(book: Rulebook, rule: Rule, sample: int, seed: int) -> Iterator[tuple[str, Scene, ModelProto]]:
    """Yield match sides: the first spelling at the newest and oldest opset, square, and a share of the others."""
    first_types = {variable: types[0] for variable, types in rule.types.items()}
    samples = [rule.samples[sample], squared(rule.samples[sample])]
    for text in rule.matches:
        for number, spelling in enumerate(spellings(text, book)):
            if number and number % len(rule.samples) != sample:
                continue
            for opsets in (rule.verified[::-1], rule.verified)[: 2 if number == 0 else 1]:
                for chosen in samples[: 2 if number == 0 else 1]:
                    yield from _first(rule, text, spelling, chosen, first_types, opsets, f"sample {sample + 1}", seed)


def _first(
    rule: Rule,
    text: Text,
    spelling: Spelling,
    sample: Sample,
    types: Mapping[str, int],
    opsets: Sequence[int],
    case: str,
    seed: int,
) -> Iterator[tuple[str, Scene, ModelProto]]:
    """Yield the match side at the first of these opsets at which it can be written, if there is one."""
    try:
        scene = make_scene(rule, sample, types, seed)
    except Unusable:
        return
    for opset in opsets:
        try:
            model = match_model(scene, text, spelling, opset)
        except (Inapplicable, NotAllowed):
            continue
        except Invalid:
            return
        spelled = f" ({spelling.name})" if spelling.name else ""
        yield f"{text.name}{spelled}, opset {opset}, {case}", scene, model
        return


def squared(sample: Sample) -> Sample:
    """Return a sample with all dims of the same length."""
    return Sample({n: (_SQUARE,) * len(s) for n, s in sample.shapes.items()}, sample.attributes, sample.absent)


def resized(rule: Rule, sample: Sample) -> Iterator[tuple[str, Sample]]:
    """Yield the sample with all dims of one length made empty, or 1; weights are never empty.

    onnxruntime does not come back from a Conv with no channels.
    """
    solid = {d for n, s in sample.shapes.items() if n not in rule.inputs or rule.inputs[n].const for d in s}
    for length in dict.fromkeys(dim for shape in sample.shapes.values() for dim in shape):
        for other in (1,) if length in solid else (0, 1):
            shapes = {n: tuple(other if dim == length else dim for dim in s) for n, s in sample.shapes.items()}
            if length != other:
                yield f"with {length} made {other}", replace(sample, shapes=shapes)


def _other_models(book: Rulebook, rule: Rule, sample: int, seed: int) -> Iterator[tuple[str, ModelProto]]:
    """Yield match sides with empty dims and dims of 1, and of types that the rule does not name."""
    types = {variable: types[0] for variable, types in rule.types.items()}
    variable = next(iter(rule.types))
    for text in rule.matches:
        spelling = next(spellings(text, book))
        for what, other in resized(rule, rule.samples[sample]):
            for case, _, model in _first(rule, text, spelling, other, types, rule.verified[::-1], what, seed):
                yield case, model
        for elem_type in (t for t in _OTHER_TYPES if t not in rule.types[variable]):
            chosen = {**types, variable: elem_type}
            what = f"with {type_name(elem_type)}"
            for opsets in (rule.verified[::-1], rule.verified):
                for case, _, model in _first(rule, text, spelling, rule.samples[sample], chosen, opsets, what, seed):
                    yield case, model


def judge(rule: Rule, patterns: Sequence[Pattern], breakage: Breakage, seed: int) -> tuple[str | None, tuple[str, ...]]:
    """Return what is wrong with how the engine treats a broken model, and why it refuses it.

    The first is "" if nothing is wrong, None if the model is not valid.
    """
    try:
        outcome = apply(breakage.model, patterns)
    except OnnxfuseError as error:
        return (f"the engine fails: {error}" if _is_valid(breakage) else None), ()
    except Exception as error:  # a bug of the engine, if the model is valid
        return (f"the engine breaks down: {type(error).__name__}: {error}" if _is_valid(breakage) else None), ()
    return ("", outcome.reasons) if outcome.result is None else (_judge_result(rule, breakage, outcome, seed), ())


def _is_valid(breakage: Breakage) -> bool:
    try:
        checked(breakage.model)
    except Invalid:
        return False
    return True


def _judge_result(rule: Rule, breakage: Breakage, outcome: Outcome, seed: int) -> str | None:
    assert outcome.result is not None
    arrays = {**_drawn(breakage.model, rule, seed), **breakage.feeds}
    types = {info.name: info.type.tensor_type.elem_type for info in breakage.model.graph.input}
    court = Judge(arrays, types, list(arrays), seed, (RANDOM,))
    try:
        check_size(shape_inference.infer_shapes(_declared(breakage.model, arrays)).graph)
        reference = court.reference(checked(breakage.model))
    except (Invalid, CannotRun):
        return None
    return result_problem(court, reference, outcome.result, rule.safety == "exact")


def _declared(model: ModelProto, arrays: Mapping[str, NDArray[Any]]) -> ModelProto:
    """Return a model whose inputs are declared to have the shapes of what is fed, where they were vague."""
    inputs = {info.name: info.type.tensor_type for info in model.graph.input}
    vague = [name for name, t in inputs.items() if not all(dim.HasField("dim_value") for dim in t.shape.dim)]
    vague += [name for name, t in inputs.items() if not t.HasField("shape")]
    if not vague:
        return model
    copy = ModelProto()
    copy.CopyFrom(model)
    for info in copy.graph.input:
        info.CopyFrom(
            helper.make_tensor_value_info(info.name, info.type.tensor_type.elem_type, arrays[info.name].shape)
        )
    return copy


def _drawn(model: ModelProto, rule: Rule, seed: int) -> dict[str, NDArray[Any]]:
    generator = np.random.default_rng(seed)
    found = {}
    for info in model.graph.input:
        tensor = info.type.tensor_type
        shape = tuple(dim.dim_value for dim in tensor.shape.dim)
        found[info.name] = draw(shape, tensor.elem_type, rule.draw.get(info.name), generator)
    return found
