"""Values for the inputs of a model, drawn from what its graph does with them; same seed and name, same bytes."""

from __future__ import annotations

import re
import zlib
from collections.abc import Mapping
from typing import Any

import ml_dtypes
import numpy as np

from onnxfuse.validate.facts import Facts
from onnxfuse.validate.sessions import Value

_DTYPES: dict[str, Any] = {
    "float": np.float32,
    "double": np.float64,
    "float16": np.float16,
    "bfloat16": ml_dtypes.bfloat16,
    "float8e4m3fn": ml_dtypes.float8_e4m3fn,
    "float8e4m3fnuz": ml_dtypes.float8_e4m3fnuz,
    "float8e5m2": ml_dtypes.float8_e5m2,
    "float8e5m2fnuz": ml_dtypes.float8_e5m2fnuz,
    "bool": np.bool_,
    "string": np.object_,
    **{f"{sign}int{bits}": np.dtype(f"{sign}int{bits}") for sign in ("", "u") for bits in (8, 16, 32, 64)},
}
_WORDS = ("the", "quick", "brown", "fox", "jumps", "over", "a", "lazy", "dog")
_IN_A_SEQUENCE = 2


class CannotDraw(Exception):
    """An input is of a type that nothing can be drawn for; the message says which."""


def generator(seed: int, name: str) -> np.random.Generator:
    """Return the random numbers of one input: other inputs, added or removed, do not change them."""
    return np.random.default_rng(np.random.SeedSequence([seed, zlib.crc32(name.encode())]))


def draw(
    name: str,
    kind: str,
    shape: tuple[int, ...],
    facts: Facts,
    chosen: Mapping[str, int],
    seed: int,
) -> Value:
    """Return a value for one input.

    ``kind`` is onnxruntime's type, "tensor(float)" or "seq(tensor(float))"; ``shape`` that of the tensor or, for a
    sequence, of each element; ``chosen`` holds the sizes of symbols and the values of scalar inputs. Raises CannotDraw.
    """
    rng = generator(seed, name)
    if kind.startswith("optional("):
        return draw(name, kind[len("optional(") : -1], shape, facts, chosen, seed)
    if kind.startswith("seq(tensor("):
        element = kind[len("seq(") : -1]
        return [_tensor(name, element, shape, facts, chosen, rng) for _ in range(_IN_A_SEQUENCE)]
    if kind.startswith("map("):
        return _map(name, kind, facts, rng)
    return _tensor(name, kind, shape, facts, chosen, rng)


def dtype_of(kind: str) -> np.dtype[Any] | None:
    """Return the numpy type of "tensor(...)" (within a sequence or optional, too), None where there is none."""
    found = re.search(r"tensor\((\w+)\)", kind)
    dtype = _DTYPES.get(found.group(1)) if found else None
    return None if dtype is None or kind.startswith("sparse") else np.dtype(dtype)


def _tensor(
    name: str, kind: str, shape: tuple[int, ...], facts: Facts, chosen: Mapping[str, int], rng: np.random.Generator
) -> np.ndarray:
    dtype = dtype_of(kind)
    if dtype is None:
        raise CannotDraw(f"input {name!r} is of type {kind}, for which no values can be drawn")
    if name in chosen:
        return np.full(shape, chosen[name], dtype)
    if dtype == np.object_:
        return _strings(shape, facts, rng)
    if dtype == np.bool_:
        return _bools(name, shape, rng)
    return _numbers(name, dtype, shape, facts, chosen, rng).astype(dtype)


def _map(name: str, kind: str, facts: Facts, rng: np.random.Generator) -> dict[Any, Any]:
    found = re.fullmatch(r"map\((string|int64),tensor\((float|double|int64)\)\)", kind.replace(" ", ""))
    if found is None:
        raise CannotDraw(f"input {name!r} is of type {kind}, for which no values can be drawn")
    keys: list[Any] = facts.words or list(_WORDS) if found.group(1) == "string" else facts.constants or [0, 1, 2]
    return {key: float(rng.standard_normal()) for key in keys}


def _strings(shape: tuple[int, ...], facts: Facts, rng: np.random.Generator) -> np.ndarray:
    words = np.array(facts.words or _WORDS, np.object_)
    return np.asarray(words[rng.integers(0, len(words), shape)], np.object_).reshape(shape)


def _bools(name: str, shape: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
    if is_mask(name):
        return _mask(shape, rng).astype(np.bool_)
    values = rng.integers(0, 2, shape).astype(np.bool_)
    if values.size > 1:
        values.flat[0], values.flat[-1] = True, False
    return values


def is_mask(name: str) -> bool:
    """Tell whether an input is called a mask."""
    return re.search("mask", name, re.IGNORECASE) is not None


def _numbers(
    name: str,
    dtype: np.dtype[Any],
    shape: tuple[int, ...],
    facts: Facts,
    chosen: Mapping[str, int],
    rng: np.random.Generator,
) -> np.ndarray:
    high = _highest(facts, chosen)
    if high is not None:
        return _indices(name, shape, facts.low, high, rng)
    if is_mask(name) or "mask" in facts.roles:
        return _mask(shape, rng)
    if dtype.kind in "iu":
        return _integers(name, dtype, shape, facts, chosen, rng)
    return _floats(shape, facts, rng)


def _highest(facts: Facts, chosen: Mapping[str, int]) -> int | None:
    """Return the exclusive bound of an index, None for what is none; one that is not known is taken for 1."""
    if "index" not in facts.roles:
        return None
    known = [chosen[symbol] for symbol in facts.symbols if symbol in chosen]
    if facts.high is not None:
        known.append(facts.high)
    return max(min(known, default=1), facts.low + 1)


def _indices(name: str, shape: tuple[int, ...], low: int, high: int, rng: np.random.Generator) -> np.ndarray:
    if shape and low == 0 and re.search("position", name, re.IGNORECASE):
        return np.broadcast_to(np.arange(shape[-1]) % high, shape)
    values = rng.integers(low, high, shape)
    if values.size and not np.any(values) and high > 1:
        values.flat[-1] = high - 1
    return np.asarray(values)


def _mask(shape: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
    """Ones with some zeros at the end of the rows; no row is all zero."""
    values = np.ones(shape, np.int64)
    if not shape or shape[-1] < 2 or not values.size:
        return values
    rows = values.reshape(-1, shape[-1])
    padding = rng.integers(0, max(shape[-1] // 3, 1) + 1, len(rows))
    padding[-1] = max(padding[-1], 1)
    rows[np.arange(shape[-1]) >= shape[-1] - padding[:, None]] = 0
    return values


def _integers(
    name: str,
    dtype: np.dtype[Any],
    shape: tuple[int, ...],
    facts: Facts,
    chosen: Mapping[str, int],
    rng: np.random.Generator,
) -> np.ndarray:
    if facts.roles & {"axis", "start"}:
        return np.zeros(shape, np.int64)
    if facts.roles & {"step", "expansion", "shape"}:
        values = np.ones(shape, np.int64)
        if "shape" in facts.roles:
            # Any tensor can be reshaped to [1, ..., -1].
            values.flat[-1:] = -1
        return values
    if facts.constants and "compared" not in facts.roles:
        return np.asarray(rng.choice(np.array(facts.constants), shape))
    low, high = _range(name, dtype, shape, facts, chosen)
    return np.asarray(rng.integers(low, high, shape))


def _range(
    name: str, dtype: np.dtype[Any], shape: tuple[int, ...], facts: Facts, chosen: Mapping[str, int]
) -> tuple[int, int]:
    if dtype.itemsize == 1:
        limits = np.iinfo(dtype)
        return int(limits.min), int(limits.max) + 1
    if "length" in facts.roles or re.search("len", name, re.IGNORECASE):
        return 1, max(min((size for size in chosen.values() if size > 3), default=4), 1) + 1
    if "size" in facts.roles:
        return 1, 4
    signed = dtype.kind == "i" and len(shape) > 1 and not facts.roles & {"compared", "positive"}
    return (-8, 9) if signed else (1, 9)


def _floats(shape: tuple[int, ...], facts: Facts, rng: np.random.Generator) -> np.ndarray:
    if "fraction" in facts.roles:
        return np.full(shape, 0.5)
    if "factor" in facts.roles:
        return np.array([1.0, 1.0, 2.0, 2.0])[-shape[0] :] if shape == (4,) else np.ones(shape)
    values = np.asarray(rng.standard_normal(shape))
    if "positive" in facts.roles:
        return np.abs(values) + 0.1
    if values.size > 1:
        # However few they are, both signs occur: a Relu passes something and stops something.
        values.flat[0], values.flat[-1] = abs(values.flat[0]), -abs(values.flat[-1])
    return values
