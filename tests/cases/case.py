"""Tiny models that each isolate one way in which graph optimizers go wrong: how they are written, built and judged."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from onnx import GraphProto, ModelProto, helper, numpy_helper, parser

from onnxfuse import optimize
from tests.judge import Array, ops, run, unread_initializers

# Absolute and relative, by element type; integers and booleans must be equal.
TOLERANCES = {"float32": (1e-4, 1e-4), "float16": (6e-3, 6e-3), "float64": (1e-9, 1e-9)}


@dataclass(frozen=True)
class Case:
    """A model as ONNX text, the law it guards, and what must come of it.

    A value that the main graph declares but nobody gives (`<float[4] gain>`) is a random weight; a variance (`var`,
    `var_1` ...) is positive. `fused` are operators that the result must have, `gone` those it must not have, `kept`
    those of which it must have as many as before. `feeds` replaces random inputs; `sizes` are those of symbolic dims.
    """

    law: str
    text: str
    opset: int = 17
    ir: int = 8
    imports: Mapping[str, int] = field(default_factory=dict)
    fused: tuple[str, ...] = ()
    gone: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()
    feeds: Mapping[str, Any] = field(default_factory=dict)
    sizes: tuple[int, ...] = (2, 5)

    def build(self) -> ModelProto:
        """Return the model, its weights drawn."""
        imports = ", ".join(f'"{domain}" : {version}' for domain, version in {"": self.opset, **self.imports}.items())
        model = parser.parse_model(f"<ir_version: {self.ir}, opset_import: [{imports}]>\n{self.text}")
        _fill(model.graph)
        onnx.checker.check_model(model)
        return model

    def judge(self) -> ModelProto:
        """Optimize the model and check what came of it; return the result."""
        before = self.build()
        result = optimize(before, provider="cpu")
        after = result.model
        onnx.checker.check_model(after)
        assert result.validation is not None and result.validation.ok
        assert _interface(after) == _interface(before)
        assert set(unread_initializers(after)) <= set(unread_initializers(before))
        for size in self.sizes:
            feeds = self.draw(before, size)
            _assert_same(run(before, feeds), run(after, feeds))
        assert {op: ops(after)[op] for op in self.kept} == {op: ops(before)[op] for op in self.kept}
        assert [op for op in self.fused if not ops(after)[op]] == []
        assert [op for op in self.gone if ops(after)[op]] == []
        return after

    def draw(self, model: ModelProto, size: int) -> dict[str, Array]:
        """Return the inputs of a model, random where `feeds` does not give them; `size`: that of symbolic dims."""
        rng = np.random.default_rng(size)
        feeds = {}
        for name in _interface(model)[0]:
            tensor = next(value.type.tensor_type for value in model.graph.input if value.name == name)
            dtype = helper.tensor_dtype_to_np_dtype(tensor.elem_type)
            shape = [dim.dim_value if dim.HasField("dim_value") else size for dim in tensor.shape.dim]
            drawn = rng.integers(0, 2, shape) if np.dtype(dtype).kind in "bi" else rng.standard_normal(shape)
            feeds[name] = np.asarray(self.feeds.get(name, drawn), dtype)
        return feeds


def _fill(graph: GraphProto) -> None:
    """Turn declared values that no node gives into random initializers."""
    given = {name for node in graph.node for name in node.output} | {value.name for value in graph.output}
    rng = np.random.default_rng(7)
    for info in [info for info in graph.value_info if info.name not in given]:
        tensor = info.type.tensor_type
        values = rng.standard_normal([dim.dim_value for dim in tensor.shape.dim]) * 0.7
        values = np.abs(values) + 0.3 if info.name.startswith("var") else values
        array = np.asarray(values, helper.tensor_dtype_to_np_dtype(tensor.elem_type))
        graph.initializer.append(numpy_helper.from_array(array, info.name))
        graph.value_info.remove(info)


def _interface(model: ModelProto) -> tuple[list[str], list[str]]:
    fixed = {tensor.name for tensor in model.graph.initializer} if model.ir_version < 4 else set()
    return [i.name for i in model.graph.input if i.name not in fixed], [o.name for o in model.graph.output]


def _assert_same(wants: list[Array], gots: list[Array]) -> None:
    for want, got in zip(wants, gots, strict=True):
        assert (got.dtype, got.shape) == (want.dtype, want.shape)
        atol, rtol = TOLERANCES.get(want.dtype.name, (0, 0))
        np.testing.assert_allclose(got.astype("f8"), want.astype("f8"), rtol, atol, equal_nan=True)
