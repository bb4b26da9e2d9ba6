"""Raising opsets: onnx's own test of each operator, relabelled with the oldest opset at which it runs."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import ModelProto, helper

from onnxfuse.errors import OpsetError
from onnxfuse.model.file import from_proto
from onnxfuse.model.opset import raise_opset

Feeds = dict[str, Any]
OPSET = 21
# What onnxruntime has no kernel for at the newer opset, and what cannot be raised from its oldest one.
NO_KERNEL, REFUSED = {"Bernoulli"}, {"Scan", "Upsample"}


def first_cases() -> dict[str, tuple[ModelProto, Feeds]]:
    """Return for each operator of the default domain the first test that onnx has for it alone."""
    from onnx.backend.test.case.node import collect_testcases  # slow: it makes all data

    found: dict[str, tuple[ModelProto, Feeds]] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for case in collect_testcases():
            model = case.model
            if model is not None and case.data_sets and len(model.graph.node) == 1 and not model.graph.node[0].domain:
                names = [info.name for info in model.graph.input]
                feeds = dict(zip(names, case.data_sets[0][0], strict=False))
                found.setdefault(model.graph.node[0].op_type, (model, feeds))
    return found


def at(model: ModelProto, opset: int) -> ModelProto:
    """Return the model with another opset written on it."""
    copied = ModelProto()
    copied.CopyFrom(model)
    copied.opset_import[0].version = opset
    copied.ir_version = max(4, helper.find_min_ir_version_for(list(copied.opset_import), ignore_unknown=True))
    return copied


def run(proto: ModelProto, feeds: Feeds) -> list[Any] | None:
    """Return what onnxruntime makes of a model, None if it does not run it."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    try:
        onnx.checker.check_model(proto)
        session = onnxruntime.InferenceSession(proto.SerializeToString(), options, ["CPUExecutionProvider"])
        return list(session.run(None, feeds))
    except Exception:  # onnxruntime has no common base for its errors
        return None


def oldest(op: str, model: ModelProto, feeds: Feeds) -> tuple[ModelProto, list[Any]] | None:
    """Return the model at the oldest opset below OPSET at which it runs, and its outputs."""
    changes = {schema.since_version for schema in onnx.defs.get_all_schemas_with_history()
               if schema.name == op and not schema.domain}  # fmt: skip
    for opset in sorted({max(7, change) for change in changes if change < OPSET}):
        results = run(at(model, opset), feeds)
        if results is not None:
            return at(model, opset), results
    return None


def same(one: Any, other: Any) -> bool:
    if isinstance(one, list):
        return len(one) == len(other) and all(map(same, one, other))
    if one is None or one.dtype.kind not in "fiu":
        return one is other or (np.shape(one) == np.shape(other) and bool(np.all(one == other)))
    return one.dtype == other.dtype and np.allclose(one, other, rtol=1e-5, atol=1e-6, equal_nan=True)


def test_every_operator_of_onnx() -> None:
    judged = set()
    for op, (model, feeds) in first_cases().items():
        found = oldest(op, model, feeds)
        if found is None:
            continue
        try:
            raised = raise_opset(from_proto(found[0]), OPSET).proto
        except OpsetError:
            assert op in REFUSED, op
            continue
        results = run(raised, feeds)
        assert op in NO_KERNEL if results is None else same(found[1], results), op
        judged.add(op)
    assert len(judged) > 130
