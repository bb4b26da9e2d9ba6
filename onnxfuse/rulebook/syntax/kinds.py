"""What the value of a key in a rule file may be: one description that checks it and that gives its JSON Schema."""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Protocol, TypeAlias

from onnxfuse.rulebook.syntax.limits import MAX_ENTRIES, MAX_NAME

# The way to a value: keys of tables and indices of lists.
Where: TypeAlias = tuple[str | int, ...]


@dataclass(frozen=True)
class Problem:
    """A value that is not what its key asks for.  `other_type`: it is something else altogether."""

    where: Where
    message: str
    other_type: bool = False


class Kind(Protocol):
    """What a value may be."""

    @property
    def noun(self) -> str:
        """The kind in words, with its article."""

    def problems(self, value: object, where: Where) -> Iterator[Problem]:
        """Yield what is wrong with a value."""

    def schema(self) -> dict[str, Any]:
        """Return the JSON Schema (draft 2020-12) of the kind."""


def suggestion(name: str, known: Iterable[str]) -> str:
    """Return `; did you mean 'x'?` for the known name nearest to a wrong one, or an empty string."""
    near = difflib.get_close_matches(name[:MAX_NAME], list(known), n=1, cutoff=0.6)
    return f"; did you mean '{near[0]}'?" if near else ""


def brief(value: object) -> str:
    """Return a value as it is shown in an error."""
    text = repr(value)
    return text if len(text) <= MAX_NAME else f"{text[: MAX_NAME - 3]}..."


def _wrong(where: Where, noun: str, value: object) -> Problem:
    names = [part for part in where if isinstance(part, str)]
    return Problem(where, f"'{'.'.join(names)[:MAX_NAME]}' must be {noun}, not {_what(value)}", True)


def _what(value: object) -> str:
    if isinstance(value, Mapping):
        return "a table"
    if isinstance(value, list):
        return "a list"
    if isinstance(value, str):
        return f"the string {brief(value)}"
    return "true or false" if isinstance(value, bool) else f"{brief(value)}"


@dataclass(frozen=True)
class Str:
    """A string: one of `choices` if there are any, else of at most `most` characters."""

    noun: str = "a string"
    choices: tuple[str, ...] = ()
    most: int | None = None

    def problems(self, value: object, where: Where) -> Iterator[Problem]:
        """See Kind."""
        if not isinstance(value, str):
            yield _wrong(where, self.noun, value)
        elif self.choices and value not in self.choices:
            yield Problem(where, self._no_choice(value, where))
        elif self.most is not None and not 0 < len(value) <= self.most:
            yield Problem(where, f"'{where[-1]}' must be {self.noun} of 1 to {self.most} characters")

    def _no_choice(self, value: str, where: Where) -> str:
        if len(self.choices) <= 8:
            key = next((part for part in reversed(where) if isinstance(part, str)), "")
            return f"'{key}' is one of {', '.join(self.choices)}, not {brief(value)}{suggestion(value, self.choices)}"
        return f"{brief(value)} is no {self.noun.split(' ', 1)[1]}{suggestion(value, self.choices)}"

    def schema(self) -> dict[str, Any]:
        """See Kind."""
        found: dict[str, Any] = {"type": "string"}
        if self.choices:
            found["enum"] = list(self.choices)
        if self.most is not None:
            found |= {"minLength": 1, "maxLength": self.most}
        return found


@dataclass(frozen=True)
class Whole:
    """A whole number from `low` to `high`."""

    low: int
    high: int
    noun: str = "a whole number"

    def problems(self, value: object, where: Where) -> Iterator[Problem]:
        """See Kind."""
        if not isinstance(value, int) or isinstance(value, bool):
            yield _wrong(where, self.noun, value)
        elif not self.low <= value <= self.high:
            yield Problem(where, f"'{where[0]}' must be {self.noun} from {self.low} to {self.high}")

    def schema(self) -> dict[str, Any]:
        """See Kind."""
        return {"type": "integer", "minimum": self.low, "maximum": self.high}


@dataclass(frozen=True)
class Number:
    """A finite number, whole or not."""

    noun: str = "a number"

    def problems(self, value: object, where: Where) -> Iterator[Problem]:
        """See Kind."""
        if isinstance(value, bool) or not isinstance(value, int | float):
            yield _wrong(where, self.noun, value)
        elif not -1e300 < value < 1e300 or math.isnan(value):
            yield _wrong(where, "a finite number", value)

    def schema(self) -> dict[str, Any]:
        """See Kind."""
        return {"type": "number"}


@dataclass(frozen=True)
class ListOf:
    """A list of `least` to `most` values of one kind."""

    item: Kind
    noun: str
    least: int = 0
    most: int = MAX_ENTRIES

    def problems(self, value: object, where: Where) -> Iterator[Problem]:
        """See Kind."""
        if not isinstance(value, list):
            yield _wrong(where, self.noun, value)
        elif not self.least <= len(value) <= self.most:
            count = f"{self.least}" if self.least == self.most else f"{self.least} to {self.most}"
            yield Problem(where, f"'{where[-1]}' must be {self.noun}: {count} of them, not {len(value)}")
        else:
            for index, item in enumerate(value):
                yield from self.item.problems(item, (*where, index))

    def schema(self) -> dict[str, Any]:
        """See Kind."""
        found: dict[str, Any] = {"type": "array", "items": self.item.schema(), "maxItems": self.most}
        return found | ({"minItems": self.least} if self.least else {})


@dataclass(frozen=True)
class MapOf:
    """A table with names of the author's choice, each with a value of one kind."""

    item: Kind
    noun: str

    def problems(self, value: object, where: Where) -> Iterator[Problem]:
        """See Kind."""
        if not isinstance(value, Mapping):
            yield _wrong(where, self.noun, value)
            return
        if len(value) > MAX_ENTRIES:
            yield Problem(where, f"'{where[-1]}' has more than {MAX_ENTRIES} entries")
            return
        for name, item in value.items():
            if not 0 < len(name) <= MAX_NAME:
                yield Problem(where, f"a name in '{where[-1]}' must have 1 to {MAX_NAME} characters")
            yield from self.item.problems(item, (*where, name))

    def schema(self) -> dict[str, Any]:
        """See Kind."""
        names = {"minLength": 1, "maxLength": MAX_NAME}
        item = self.item.schema()
        return {"type": "object", "additionalProperties": item, "propertyNames": names, "maxProperties": MAX_ENTRIES}


@dataclass(frozen=True)
class OneOf:
    """Any of several kinds, told apart by what they are made of."""

    kinds: tuple[Kind, ...]
    noun: str

    def problems(self, value: object, where: Where) -> Iterator[Problem]:
        """Yield the problems of the kind that fits best, judged by the outermost type."""
        found = [list(kind.problems(value, where)) for kind in self.kinds]
        if all(found):
            nearer = [problems for problems in found if problems[0].where != where or not problems[0].other_type]
            yield from nearer[0] if nearer else [_wrong(where, self.noun, value)]

    def schema(self) -> dict[str, Any]:
        """See Kind."""
        return {"anyOf": [kind.schema() for kind in self.kinds]}


@dataclass(frozen=True)
class Flag:
    """True or false."""

    noun: str = "true or false"

    def problems(self, value: object, where: Where) -> Iterator[Problem]:
        """See Kind."""
        if not isinstance(value, bool):
            yield _wrong(where, self.noun, value)

    def schema(self) -> dict[str, Any]:
        """See Kind."""
        return {"type": "boolean"}


@dataclass(frozen=True)
class Key:
    """A key: what its value may be, what it means in one line, an example, and its value when it is left out."""

    kind: Kind
    meaning: str
    example: str
    required: bool = False
    default: Any = None


@dataclass(frozen=True)
class Record:
    """A table with keys of our choice; `title` is how a rule file spells it: `[rewrite]`, `[[match]]`."""

    title: str
    keys: Mapping[str, Key]
    noun: str = "a table"

    def problems(self, value: object, where: Where) -> Iterator[Problem]:
        """See Kind."""
        if not isinstance(value, Mapping):
            yield _wrong(where, self.noun, value)
            return
        for name in value:
            if name not in self.keys:
                hint = suggestion(name, self.keys)
                yield Problem((*where, name), f"unknown key '{name[:MAX_NAME]}' in {self.title}{hint}")
        for name, key in self.keys.items():
            if name in value:
                yield from (_with_example(problem, key) for problem in key.kind.problems(value[name], (*where, name)))
            elif key.required:
                yield Problem(where, f"the key '{name}' is missing in {self.title}; for example: {key.example}")

    def schema(self) -> dict[str, Any]:
        """See Kind."""
        properties = {name: _key_schema(key) for name, key in self.keys.items()}
        required = [name for name, key in self.keys.items() if key.required]
        found: dict[str, Any] = {"type": "object", "properties": properties, "additionalProperties": False}
        return found | ({"required": required} if required else {})


def _with_example(problem: Problem, key: Key) -> Problem:
    """Return a problem with what would be right, unless it already says that."""
    if "; " in problem.message:
        return problem
    return replace(problem, message=f"{problem.message}; for example: {key.example}")


def _key_schema(key: Key) -> dict[str, Any]:
    found = {"description": key.meaning, **key.kind.schema()}
    return found if key.default is None else {**found, "default": key.default}
