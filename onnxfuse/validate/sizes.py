"""Dimensions whose size is open, and which sizes to try for them."""

from __future__ import annotations

import ast
import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from onnx import TypeProto, ValueInfoProto

from onnxfuse.validate.facts import Facts

# In the order they are tried; no two first choices agree, so that swapped axes show.
_SIZES: dict[str, tuple[int, ...]] = {
    "batch": (2, 1, 3, 4, 8),
    "sequence": (12, 8, 16, 32, 64, 128, 256, 512, 576, 1, 80, 100, 480, 1024),
    "past": (5, 4, 8, 1, 16, 0),
    "height": (64, 96, 32, 128, 48, 224, 256, 320, 16, 8, 640, 28, 299, 512),
    "width": (96, 64, 32, 128, 320, 224, 256, 48, 16, 8, 640, 28, 299, 512),
    "channel": (3, 1, 4, 16, 32, 64),
    "depth": (16, 8, 32, 4),
    "other": (6, 4, 8, 16, 1, 32, 64, 2, 3, 128, 256),
}
_NAMED: tuple[tuple[str, str], ...] = (
    ("past", r"past"),
    ("batch", r"batch|^n$|^b$|^bs$"),
    ("height", r"height|^h$|rows"),
    ("width", r"width|^w$|cols"),
    ("channel", r"channel|^c$"),
    ("sequence", r"seq|len|time|token|frame|sample|^t$|^s$|^l$"),
)


_OPERATORS = (ast.Add, ast.Sub, ast.Mult, ast.FloorDiv, ast.Div)
_ARITHMETIC = (ast.Expression, ast.BinOp, ast.Name, ast.Constant, ast.Load, *_OPERATORS)


@dataclass(frozen=True)
class Shape:
    """The declared dims of an input: sizes, symbols or expressions of symbols; unnamed dims are called input[axis]."""

    input: str
    dims: tuple[int | str, ...]

    def at(self, sizes: Mapping[str, int]) -> tuple[int, ...]:
        """Return the shape under an assignment of sizes to symbols."""
        return tuple(dim if isinstance(dim, int) else evaluate(dim, sizes) for dim in self.dims)


@dataclass(frozen=True)
class Variable:
    """Something to choose before inputs can be drawn: the size of a dimension, or the value of a scalar input."""

    name: str
    candidates: tuple[int, ...]
    role: str

    @property
    def promises_batches(self) -> bool:
        """Whether the model says by name that this is the batch, of any size."""
        return self.role == "batch" and re.search("batch", self.name, re.IGNORECASE) is not None


def declared_shape(value: ValueInfoProto) -> Shape | None:
    """Return the shape of a tensor input, or of the elements of a sequence or optional; None if the rank is open."""
    tensor = _tensor_type(value.type)
    if tensor is None or not tensor.HasField("shape"):
        return None
    dims: list[int | str] = []
    for axis, dim in enumerate(tensor.shape.dim):
        fixed = dim.HasField("dim_value") and dim.dim_value >= 0
        dims.append(dim.dim_value if fixed else dim.dim_param or f"{value.name}[{axis}]")
    return Shape(value.name, tuple(dims))


def _tensor_type(kind: TypeProto) -> TypeProto.Tensor | None:
    if kind.HasField("tensor_type"):
        return kind.tensor_type
    if kind.HasField("sequence_type"):
        return _tensor_type(kind.sequence_type.elem_type)
    return _tensor_type(kind.optional_type.elem_type) if kind.HasField("optional_type") else None


def variables(shapes: Sequence[Shape], facts: Mapping[str, Facts]) -> list[Variable]:
    """Return the open dimensions of all inputs, each once, with the sizes to try."""
    found: dict[str, Variable] = {}
    for shape in shapes:
        for axis, dim in enumerate(shape.dims):
            for symbol in [] if isinstance(dim, int) else symbols_of(dim):
                demanded = facts[shape.input].sizes.get(axis) if symbol == dim else None
                known = found.get(symbol)
                if known is None:
                    found[symbol] = _variable(symbol, shape, axis, demanded)
                elif demanded is not None:
                    found[symbol] = Variable(symbol, _first(demanded, known.candidates), known.role)
    return list(found.values())


def _variable(symbol: str, shape: Shape, axis: int, demanded: int | None) -> Variable:
    role = _role(symbol, shape, axis)
    candidates = _SIZES[role]
    return Variable(symbol, candidates if demanded is None else _first(demanded, candidates), role)


def _first(size: int, others: tuple[int, ...]) -> tuple[int, ...]:
    return (size, *(other for other in others if other != size))


def _role(symbol: str, shape: Shape, axis: int) -> str:
    if not symbol.endswith(f"[{axis}]"):
        for role, pattern in _NAMED:
            if re.search(pattern, symbol, re.IGNORECASE):
                return role
    return _role_by_place(shape, axis)


def _role_by_place(shape: Shape, axis: int) -> str:
    rank = len(shape.dims)
    first_open = next(index for index, dim in enumerate(shape.dims) if isinstance(dim, str))
    if axis == first_open and axis <= 1 and rank > 1:
        return "batch"
    if rank in (1, 2, 3):
        return "sequence"
    if rank == 4:
        last = shape.dims[-1]
        channels_last = isinstance(last, int) and last <= 4 and shape.dims[1] not in (1, 3)
        names = ("batch", "height", "width", "channel") if channels_last else ("batch", "channel", "height", "width")
        return names[axis]
    return "depth" if rank == 5 and axis > 1 else "other"


def symbols_of(dim: str) -> list[str]:
    """Return the symbols in a dim: those of an expression like "past + sequence", else the dim itself."""
    tree = _expression(dim)
    if tree is None:
        return [dim]
    return sorted({node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}) or [dim]


def evaluate(dim: str, sizes: Mapping[str, int]) -> int:
    """Return the size of a dim, which may be an expression of symbols."""
    if dim in sizes:
        return sizes[dim]
    tree = _expression(dim)
    assert tree is not None
    return max(0, _value(tree.body, sizes))


def _expression(dim: str) -> ast.Expression | None:
    if not re.fullmatch(r"[A-Za-z_]\w*|[\w\s+*/()-]*[+*/-][\w\s+*/()-]*", dim) or re.search(r"\w\(", dim):
        return None
    try:
        tree = ast.parse(dim, mode="eval")
    except SyntaxError:
        return None
    return tree if all(isinstance(node, _ARITHMETIC) for node in ast.walk(tree)) else None


def _value(node: ast.expr, sizes: Mapping[str, int]) -> int:
    if isinstance(node, ast.Constant):
        return int(node.value)  # type: ignore[arg-type]
    if isinstance(node, ast.Name):
        return sizes[node.id]
    assert isinstance(node, ast.BinOp)
    left, right = _value(node.left, sizes), _value(node.right, sizes)
    if isinstance(node.op, ast.Add):
        return left + right
    if isinstance(node.op, ast.Sub):
        return left - right
    return left * right if isinstance(node.op, ast.Mult) else left // max(right, 1)


def assignments(choices: Sequence[Variable]) -> Iterator[dict[str, int]]:
    """Yield assignments, likely ones first: all first choices, all second ..., each variable alone, then mixtures."""
    lengths = [len(choice.candidates) for choice in choices]
    deepest = max(lengths, default=1)
    joint = (tuple(min(step, length - 1) for length in lengths) for step in range(min(deepest, 4)))
    alone = (
        tuple(step if place == moved else 0 for place in range(len(lengths)))
        for moved, length in enumerate(lengths)
        for step in range(1, length)
    )
    seen: set[tuple[int, ...]] = set()
    for indices in itertools.chain(joint, alone, _mixtures(lengths)):
        if indices not in seen:
            seen.add(indices)
            yield {choice.name: choice.candidates[index] for choice, index in zip(choices, indices, strict=True)}


def _mixtures(lengths: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """Yield all index tuples by their sum, so that likely choices come first."""
    for total in range(sum(lengths)):
        yield from _summing(lengths, total)


def _summing(lengths: Sequence[int], total: int) -> Iterator[tuple[int, ...]]:
    if not lengths:
        if total == 0:
            yield ()
        return
    for first in range(min(lengths[0] - 1, total), -1, -1):
        for rest in _summing(lengths[1:], total - first):
            yield (first, *rest)
