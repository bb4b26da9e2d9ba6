"""The spellings of a form, each run against the first."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from onnx import ModelProto, TensorProto

from onnxfuse.model import schema
from onnxfuse.prove.instances import type_name
from onnxfuse.prove.result import FormProof
from onnxfuse.prove.running.judge import Judge
from onnxfuse.prove.running.runtime import CannotRun
from onnxfuse.prove.sides.build import Inapplicable, match_model
from onnxfuse.prove.sides.element_types import NotAllowed
from onnxfuse.prove.sides.scene import make_scene
from onnxfuse.prove.sides.spelling import Spelling, spellings
from onnxfuse.prove.sides.valid import Invalid
from onnxfuse.prove.tally import Tally
from onnxfuse.rulebook.rule import Guard, Rule, Rulebook, Sample, Text

TYPES = (TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.DOUBLE)
OPSETS = tuple(range(7, 27))
_SHAPES = ((3, 4), (2, 1, 5))

# A form has no guards, so its data must be where all spellings are defined: roots and powers need positive numbers.
_LIMITS = (0.1, 2.0)


def prove_form(book: Rulebook, name: str, seed: int) -> FormProof:
    """Run every spelling of a form against the first: each type, each opset at which an operator changed."""
    tally = Tally()
    texts = book.forms[name]
    for elem_type in TYPES:
        for shape in _SHAPES:
            rule = _as_rule(name, texts, shape)
            _prove(book, rule, elem_type, seed, tally)
    return FormProof(name, len(texts), tally.run, sum(tally.not_run.values()), tally.shown())


def _as_rule(name: str, texts: tuple[Text, ...], shape: tuple[int, ...]) -> Rule:
    """Return a form as a rule of which every spelling is a match text."""
    inputs = {i: Guard("T") for i in texts[0].inputs}
    return Rule(
        name=name, path=Path(), summary="", verified=OPSETS, types={"T": TYPES}, safety="rounding", status="stable",
        order=0, keep={}, inputs=inputs, absent={}, attributes={}, derive={}, draw=dict.fromkeys(inputs, _LIMITS),
        matches=texts, rewrite=texts[0], samples=(Sample(dict.fromkeys(inputs, shape)),), rejects=(),
    )  # fmt: skip


def _prove(book: Rulebook, rule: Rule, elem_type: int, seed: int, tally: Tally) -> None:
    scene = make_scene(rule, rule.samples[0], {"T": elem_type}, seed)
    judge = Judge(scene.arrays, scene.types, list(rule.draw), seed)
    written = [(text, spelling) for text in rule.matches for spelling in spellings(text, book)]
    seen: set[tuple[int, ...]] = set()
    for opset in OPSETS:
        versions = tuple(_versions(written, opset))
        if versions in seen:
            continue
        seen.add(versions)
        models = []
        for text, spelling in written:
            try:
                models.append((spelling.name or text.name, match_model(scene, text, spelling, opset)))
            except (Inapplicable, NotAllowed):
                continue
            except Invalid as error:
                tally.problem("form", f"{spelling.name or text.name}, opset {opset}", f"it is not valid: {error}")
        _compare(judge, models, f"opset {opset}, {type_name(elem_type)}", tally)


def _versions(written: list[tuple[Text, Spelling]], opset: int) -> Iterator[int]:
    for _, spelling in written:
        for line in spelling.lines:
            yield schema.since(line.node.op, opset, line.node.domain)


def _compare(judge: Judge, models: list[tuple[str, ModelProto]], where: str, tally: Tally) -> None:
    reference = None
    for number, (name, model) in enumerate(models, start=1):
        case = f"spelling {number} ({name}), {where}"
        try:
            if reference is None:
                reference = judge.reference(model)
                continue
            _, message = judge.differences(reference, model)
            tally.run += 1
        except CannotRun as error:
            message = "" if error.no_kernel else f"it does not run: {error}"
            tally.not_run[str(error)] += 1
        if message:
            tally.problem("form", case, message)
