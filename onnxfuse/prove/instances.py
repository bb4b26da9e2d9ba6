"""A rule on its samples: every spelling at every opset, both sides run, and the engine tried on the match side."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from onnx import ModelProto, TensorProto, ValueInfoProto

from onnxfuse.errors import OnnxfuseError
from onnxfuse.match.pattern import Pattern, compile_patterns
from onnxfuse.model import schema
from onnxfuse.prove.running.engine import apply
from onnxfuse.prove.running.judge import Judge, Reference
from onnxfuse.prove.running.runtime import CannotRun
from onnxfuse.prove.sides.build import Inapplicable, match_model, rewrite_model
from onnxfuse.prove.sides.element_types import NotAllowed
from onnxfuse.prove.sides.scene import Scene, Unusable, make_scene
from onnxfuse.prove.sides.spelling import Spelling, spellings
from onnxfuse.prove.sides.valid import Invalid, checked
from onnxfuse.prove.tally import Tally
from onnxfuse.rulebook.rule import Rule, Rulebook, Text


@dataclass(frozen=True)
class Case:
    """One spelling of a match text at an opset, in a scene."""

    scene: Scene
    text: Text
    spelling: Spelling
    opset: int
    sample: int

    def __str__(self) -> str:
        spelled = f" ({self.spelling.name})" if self.spelling.name else ""
        return f"{self.text.name}{spelled}, opset {self.opset}, {type_name(self.scene.main)}, sample {self.sample + 1}"

    @cached_property
    def model(self) -> ModelProto:
        """The match side."""
        return match_model(self.scene, self.text, self.spelling, self.opset)

    @property
    def versions(self) -> tuple[int, ...]:
        """The versions of the operators of both sides at the opset: where they are the same, nothing differs."""
        lines = (*(line.node for line in self.spelling.lines), *self.scene.rule.rewrite.nodes)
        return tuple(schema.since(line.op, self.opset, line.domain) for line in lines)


def type_name(elem_type: int) -> str:
    """Return "float16" for its number."""
    return str(TensorProto.DataType.Name(elem_type)).lower()


def one_rule(book: Rulebook, rule: Rule) -> Rulebook:
    """Return a rulebook with just one rule."""
    return Rulebook((rule,), book.forms)


def cases(scene: Scene, book: Rulebook, sample: int, exhaustive: bool = False) -> Iterator[Case]:
    """Yield the cases of a scene for which a model can be made.

    The first spelling of a text comes at every verified opset in the first sample, and at the newest versions of its
    operators in all samples.  The other spellings come at all versions too, each in one sample.  `exhaustive`:
    everything comes everywhere.
    """
    for text in scene.rule.matches:
        for number, spelling in enumerate(spellings(text, book)):
            seen: list[tuple[int, ...]] = []
            for opset in reversed(scene.rule.verified):
                case = Case(scene, text, spelling, opset, sample)
                if (number or sample) and not exhaustive and case.versions in seen:
                    continue
                seen.append(case.versions)
                everywhere = exhaustive or (number == 0 and (sample == 0 or len(seen) == 1))
                if not everywhere and not _is_dealt(scene.rule, sample, number + len(seen)):
                    continue
                try:
                    _ = case.model
                except (Inapplicable, NotAllowed):
                    continue
                except Invalid:
                    pass  # told when the case is proven
                yield case


def _is_dealt(rule: Rule, sample: int, number: int) -> bool:
    """Tell whether a sample is the one that takes the case of this number."""
    return number % len(rule.samples) == sample


class _Prover:
    def __init__(self, book: Rulebook, scene: Scene, types: Mapping[str, int], seed: int) -> None:
        self._types = types
        self._scene = scene
        self._rule = scene.rule
        self._patterns: tuple[Pattern, ...] = compile_patterns(one_rule(book, scene.rule))
        fed = {name: scene.arrays[name] for name in scene.fed}
        self._judge = Judge(fed, scene.types, list(scene.rule.draw), seed)
        self._rewrites: dict[int, tuple[int, ModelProto]] = {}
        self._tried: set[tuple[object, ...]] = set()
        self._ended: set[int] = set()
        self.tally = Tally()

    def prove(self, case: Case) -> None:
        """Run both sides of a case and compare; then let the engine rewrite the match side and compare again."""
        try:
            reference = self._judge.reference(case.model)
        except CannotRun as error:
            self._no_reference(case, error)
            return
        except Invalid as error:
            self.tally.problem("instance", str(case), f"the match side is not valid: {error}")
            return
        self._compare(case, reference)
        if self._is_new(case):
            self._try_engine(case, reference)

    def _is_new(self, case: Case) -> bool:
        """Tell whether the engine is to be tried on a case: what it looks at was not the same before."""
        key = (case.text.name, case.spelling.name, case.versions)
        new = key not in self._tried
        self._tried.add(key)
        return new

    def _no_reference(self, case: Case, error: CannotRun) -> None:
        if error.no_kernel:
            self.tally.not_run[f"{type_name(self._scene.main)}: {error}"] += 1
        else:
            self.tally.problem("result", str(case), f"the match side does not run: {error}")

    def _compare(self, case: Case, reference: Reference) -> None:
        try:
            opset, model = self._rewritten(case)
            worst, message = self._judge.differences(reference, model, self._rule.safety == "exact")
        except CannotRun as error:
            self.tally.problem("result", str(case), f"the match side runs, the rewrite does not: {error}")
            return
        except (Inapplicable, NotAllowed, Invalid) as error:
            self.tally.problem("result", str(case), f"the rewrite is not valid: {error}")
            return
        self.tally.run += 1
        self.tally.types.update(self._types.items())
        self.tally.measure(type_name(self._scene.main), worst)
        if message:
            self.tally.problem("result", str(case), f"the rewrite (opset {opset}) differs: {message}")
        if opset not in self._ended:
            self._ended.add(opset)
            self._try_end(case, model)

    def _try_end(self, case: Case, rewritten: ModelProto) -> None:
        """Require that the rule does not match its own rewrite: it would be applied without end."""
        try:
            outcome = apply(rewritten, self._patterns)
        except OnnxfuseError:  # told where the engine is tried on the match side
            return
        if outcome.result is not None:
            self.tally.problem("match", str(case), "the rewrite contains what the rule matches, so it would never end")

    def _rewritten(self, case: Case) -> tuple[int, ModelProto]:
        """Return the rewrite side at a case's opset, or at the lowest verified one above at which it can be written."""
        if case.opset not in self._rewrites:
            like = {info.name: info for info in case.model.graph.output}
            self._rewrites[case.opset] = _first_writable(self._scene, case.opset, like)
        return self._rewrites[case.opset]

    def _try_engine(self, case: Case, reference: Reference) -> None:
        self.tally.fired += 1
        try:
            outcome = apply(case.model, self._patterns)
        except OnnxfuseError as error:
            self.tally.problem("match", str(case), f"the engine fails: {error}")
            return
        if outcome.result is None:
            reasons = "; ".join(outcome.reasons) or "its match text was not found"
            self.tally.problem("match", str(case), f"the rule does not fire: {reasons}")
            return
        if message := self.judge_result(reference, outcome.result, self._rule.safety == "exact"):
            self.tally.problem("match", str(case), message)

    def judge_result(self, reference: Reference, result: ModelProto, exact: bool) -> str:
        """Return what is wrong with a model that the engine made, "" if nothing is."""
        return result_problem(self._judge, reference, result, exact)


def result_problem(judge: Judge, reference: Reference, result: ModelProto, exact: bool) -> str:
    """Return what is wrong with a model that the engine made of one whose results are known; "" if nothing is."""
    try:
        checked(result)
        _, message = judge.differences(reference, result, exact)
    except CannotRun as error:
        return f"the model that the engine made does not run: {error}"
    except Invalid as error:
        return f"the model that the engine made is not valid: {error}"
    return f"the model that the engine made differs: {message}" if message else ""


def _first_writable(scene: Scene, opset: int, like: Mapping[str, ValueInfoProto]) -> tuple[int, ModelProto]:
    problem: Exception = Inapplicable("no verified opset has its operators")
    for candidate in (opset, *(v for v in scene.rule.verified if v > opset)):
        try:
            model = rewrite_model(scene, candidate, like)
        except (Inapplicable, NotAllowed) as error:
            problem = error
            continue
        return candidate, model
    raise problem


def prove_instances(
    book: Rulebook, rule: Rule, types: Mapping[str, int], sample: int, seed: int, exhaustive: bool = False
) -> Tally:
    """Prove one rule on one sample with one choice of element types.

    With odd samples all inputs but the first are weights, so that what the engine does with constants is tried too.
    """
    try:
        scene = make_scene(rule, rule.samples[sample], types, seed + sample, more_weights=sample % 2 == 1)
    except Unusable as error:
        tally = Tally()
        tally.problem("instance", f"sample {sample + 1}", str(error))
        return tally
    prover = _Prover(book, scene, types, seed)
    found = 0
    for case in cases(scene, book, sample, exhaustive):
        found += 1
        prover.prove(case)
    if not found:
        prover.tally.not_run[f"{type_name(scene.main)}: no verified opset has the operators for it"] += 1
    return prover.tally
