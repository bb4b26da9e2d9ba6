"""The record of one optimisation: what was read, fused, validated and written. Every report format is made from it."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import PurePath
from typing import TYPE_CHECKING, Generic, Literal, TypeVar

from onnxfuse.report import strict_json
from onnxfuse.report.survey import default_opset, survey_ops

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    import onnx

    from onnxfuse.rewrite.trace import Fusion, NearMiss, NodeRecord, WeightRecord
    from onnxfuse.validate.result import OutputCheck, Run, Undone, Validation

SCHEMA_VERSION = 1

Verdict = Literal["optimized", "unchanged", "mismatch"]

T = TypeVar("T")


@dataclass(frozen=True)
class Change(Generic[T]):
    """One quantity of the model, before and after."""

    before: T
    after: T

    def to_dict(self) -> dict[str, T]:
        return {"before": self.before, "after": self.after}


@dataclass(frozen=True)
class Tool:
    """The versions that made the result; ``onnxruntime`` is None where nothing was run on it."""

    onnx: str | None
    onnxruntime: str | None

    @classmethod
    def current(cls, *, validated: bool) -> Tool:
        """Read the versions off the modules that did the work, without importing any."""
        return cls(_loaded_version("onnx"), _loaded_version("onnxruntime") if validated else None)

    @property
    def version(self) -> str:
        """Our own version; read when asked for, since looking it up takes 25 ms and a text report has no need of it."""
        import onnxfuse

        return onnxfuse.__version__

    def to_dict(self) -> dict[str, object]:
        return {"name": "onnxfuse", "version": self.version, "onnx": self.onnx, "onnxruntime": self.onnxruntime}


@dataclass(frozen=True)
class ModelRecord:
    """The model before and after.

    ``path`` is None for a model given in memory, ``output`` where nothing was written. ``ops`` counts nodes by operator
    with nested graphs and functions, ``bytes`` is the model file and its data files (after: None if not known).
    """

    path: str | None
    sha256: str
    output: str | None
    opset: Change[int | None]
    ops: Change[Mapping[str, int]]
    bytes: Change[int | None]

    @classmethod
    def of(
        cls,
        before: onnx.ModelProto,
        after: onnx.ModelProto,
        *,
        path: PurePath | str | None,
        sha256: str,
        output: PurePath | str | None,
        bytes_before: int | None,
        bytes_after: int | None,
    ) -> ModelRecord:
        """Describe ``before`` and ``after``; passing the same object twice counts it once."""
        ops = survey_ops(before)
        return cls(
            path=_posix(path),
            sha256=sha256,
            output=_posix(output),
            opset=Change(default_opset(before), default_opset(after)),
            ops=Change(ops, ops if after is before else survey_ops(after)),
            bytes=Change(bytes_before, bytes_after),
        )

    @property
    def nodes(self) -> Change[int]:
        """How many nodes there are, those of nested graphs and functions included."""
        return Change(sum(self.ops.before.values()), sum(self.ops.after.values()))

    def to_dict(self) -> dict[str, object]:
        return {
            "path": self.path,
            "sha256": self.sha256,
            "output": self.output,
            "opset": self.opset.to_dict(),
            "nodes": self.nodes.to_dict(),
            "ops": self.ops.to_dict(),
            "bytes": self.bytes.to_dict(),
        }


@dataclass(frozen=True)
class Report:
    """Everything worth telling about one model; the same input gives an equal report.

    ``steps`` are sentences on what was done to the model beside fusions: an opset raised, weights taken out of the
    graph inputs. ``undone`` are the fusions that were taken back since they made the result differ. ``validation`` is
    None where nothing was run.
    """

    tool: Tool
    model: ModelRecord
    fusions: tuple[Fusion, ...]
    undone: tuple[Undone, ...]
    near_misses: tuple[NearMiss, ...]
    steps: tuple[str, ...]
    validation: Validation | None
    verdict: Verdict

    @classmethod
    def of(
        cls,
        model: ModelRecord,
        *,
        fusions: Iterable[Fusion] = (),
        undone: Iterable[Undone] = (),
        near_misses: Iterable[NearMiss] = (),
        steps: Iterable[str] = (),
        validation: Validation | None = None,
        changed: bool,
    ) -> Report:
        """Put a report together; the verdict follows from ``changed`` (result and input differ) and ``validation``."""
        verdict: Verdict = "optimized" if changed else "unchanged"
        if validation is not None and not validation.ok:
            verdict = "mismatch"
        return cls(
            tool=Tool.current(validated=validation is not None),
            model=model,
            fusions=tuple(fusions),
            undone=tuple(undone),
            near_misses=tuple(near_misses),
            steps=tuple(steps),
            validation=validation,
            verdict=verdict,
        )

    @property
    def validated(self) -> bool:
        """Whether the result was run against the original and agreed."""
        return self.validation is not None and self.validation.ok

    def to_dict(self) -> dict[str, object]:
        """The report as plain dicts, lists, strings and numbers; floats may be NaN or infinite."""
        return {
            "schema_version": SCHEMA_VERSION,
            "tool": self.tool.to_dict(),
            "model": self.model.to_dict(),
            "fusions": [_fusion(fusion) for fusion in self.fusions],
            "undone": [_undone(undone) for undone in self.undone],
            "near_misses": [_near_miss(miss) for miss in self.near_misses],
            "steps": list(self.steps),
            "validation": None if self.validation is None else _validation(self.validation),
            "validated": self.validated,
            "verdict": self.verdict,
        }

    def to_json(self) -> str:
        """The report as strict JSON with sorted keys; see :mod:`onnxfuse.report.strict_json`."""
        return strict_json.dumps(self.to_dict())


def _posix(path: PurePath | str | None) -> str | None:
    return None if path is None else PurePath(path).as_posix()


def _loaded_version(module: str) -> str | None:
    version = getattr(sys.modules.get(module), "__version__", None)
    return version if isinstance(version, str) else None


def _fusion(fusion: Fusion) -> dict[str, object]:
    return {
        "rule": fusion.rule,
        "match": fusion.match,
        "scope": fusion.scope,
        "before": [_node(node) for node in fusion.before],
        "after": [_node(node) for node in fusion.after],
        "weights": [_weight(weight) for weight in fusion.weights],
    }


def _node(node: NodeRecord) -> dict[str, object]:
    return {"name": node.name, "op": node.op, "outputs": list(node.outputs)}


def _weight(weight: WeightRecord) -> dict[str, object]:
    return {"name": weight.name, "dtype": weight.dtype, "shape": _shape(weight.shape)}


def _undone(undone: Undone) -> dict[str, object]:
    return {**_fusion(undone.fusion), "check": None if undone.check is None else _output(undone.check)}


def _near_miss(miss: NearMiss) -> dict[str, object]:
    return {"rule": miss.rule, "node": miss.node, "reason": miss.reason}


def _validation(validation: Validation) -> dict[str, object]:
    return {
        "provider": validation.provider,
        "note": validation.note,
        "runs": [_run(run) for run in validation.runs],
    }


def _run(run: Run) -> dict[str, object]:
    return {
        "ort_optimizations": run.ort_optimizations,
        "seed": run.seed,
        "shapes": {name: _shape(shape) for name, shape in run.shapes.items()},
        "outputs": [_output(check) for check in run.outputs],
    }


def _output(check: OutputCheck) -> dict[str, object]:
    return {
        "name": check.name,
        "dtype": check.dtype,
        "shape": _shape(check.shape),
        "max_abs": float(check.max_abs),
        "max_rel": float(check.max_rel),
        "tolerance": float(check.tolerance),
        "ok": bool(check.ok),
        "note": check.note,
    }


def _shape(shape: Iterable[int]) -> list[int]:
    return [int(size) for size in shape]
