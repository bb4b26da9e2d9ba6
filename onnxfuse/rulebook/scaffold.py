"""A new rule file to begin with: it loads, it is true, and its comments say what to change."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import product

import onnx
from onnx import TensorProto, defs, shape_inference

from onnxfuse.errors import UsageError
from onnxfuse.model import schema
from onnxfuse.rulebook.syntax.kinds import suggestion
from onnxfuse.rulebook.syntax.limits import MAX_NAME
from onnxfuse.targets import PORTABLE

_NAME = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
_FLOATS = ("float", "float16", "double")
# What an attribute without a default is given.
_VALUES = {defs.OpSchema.AttrType.INT: "int = 1", defs.OpSchema.AttrType.FLOAT: "float = 1.0"}
# Shapes to try for a sample, until the operator's own shape inference takes them.
_SHAPES = ("2, 3", "3, 3", "2, 3, 4", "1, 3, 8, 8", "4, 3, 3, 3", "3", "1", "")

_FILE = """\
summary = "Remove two Negs before {op}."  # one sentence, present tense: what the rule does
# why       = "What is gained, and why it is right."
# source    = "Where the algebra comes from."
# exporters = ["Who writes models that hold this."]
opset   = {opset}  # the opset in which the texts below are written
also    = [{newest}]  # further opsets at which the rule is verified
types   = [{types}]  # what T stands for
safety  = "exact"  # or "rounding" (the default): results may differ by rounding
status  = "preview"  # "stable" when it is proven on all its types
order   = 50  # rules of a lower order go first: specific before general

[inputs]  # a guard for each input: "[own] [const] TYPE[dims]? -> [dims]", such as "const T[M, ...]"
{guards}

[[match]]  # what is looked for; one [[match]] for each spelling, all with the same inputs and outputs
text = \'\'\'
({names}) => (y)
{{
    n = Neg ({first})
    m = Neg (n)
    y = {call} ({inner})
}}
\'\'\'

[rewrite]  # what takes its place; whatever depends on constants alone is computed once
text = \'\'\'
({names}) => (y)
{{
    y = {call} ({names})
}}
\'\'\'

{draw}[[sample]]  # both sides are run on these shapes and compared; give several, of different rank
shapes = {{ {shapes} }}

[[reject]]  # a graph that must stay as it is, and why; at least one for each guard
why  = "the first Neg is read by others, too"
text = \'\'\'
g ({parameters}) => ({result} y, {inside} n)
{{ n = Neg ({first})  m = Neg (n)  y = {call} ({inner}) }}
\'\'\'
"""


@dataclass(frozen=True)
class _Call:
    """A call of an operator: its text, its inputs with their types (T: those in `types`), and the opset."""

    text: str
    inputs: Mapping[str, str]
    types: tuple[str, ...]
    opset: int


def check_name(name: str) -> None:
    """Raise UsageError unless `name` is fit for a rule: lower-case words with hyphens."""
    if not _NAME.fullmatch(name) or len(name) > MAX_NAME:
        words = re.sub(r"[^a-z0-9]+", "-", re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "-", name).lower()).strip("-")
        hint = f", for example '{words}'" if _NAME.fullmatch(words) and len(words) <= MAX_NAME else ""
        raise UsageError(f"'{name[:MAX_NAME]}' is no name for a rule: use lower-case words with hyphens{hint}")


def scaffold(op: str) -> str:
    """Return the text of a rule that removes two Negs before an operator.

    Raises UsageError if there is no such operator, or none that such a rule can be written for.
    """
    call = _call(op)
    shapes, result = _sample(op, call)
    first, *others = call.inputs
    return _FILE.format(
        op=op,
        opset=call.opset,
        newest=PORTABLE.max_opset if call.opset < PORTABLE.max_opset else "",
        types=", ".join(f'"{name}"' for name in call.types),
        guards="\n".join(f'{name} = "{type_}"' for name, type_ in call.inputs.items()),
        names=", ".join(call.inputs),
        first=first,
        call=call.text,
        inner=", ".join(["m", *others]),
        draw=_draw(call),
        shapes=", ".join(f"{name} = [{dims}]" for name, dims in shapes.items()),
        parameters=_parameters(call, shapes),
        result=result,
        inside=f"{call.types[0]}[{shapes[first]}]",
    )


def _draw(call: _Call) -> str:
    """Return the section that keeps whole numbers small, which may be indices of a sample's dims."""
    lines = "".join(f"{name} = [0, 2]\n" for name, type_ in call.inputs.items() if type_ == "int64")
    return f"[draw]  # the range of test data, from the first number up to the second\n{lines}\n" if lines else ""


def _call(op: str) -> _Call:
    known = {found.name for found in defs.get_all_schemas() if not found.domain}
    if op in schema.IMPURE:
        raise UsageError(f"no rule can be begun with {op}: it gives another value each time; take one such as Relu")
    if op not in known:
        raise UsageError(f"ONNX has no operator '{op[:MAX_NAME]}'{suggestion(op, known)}")
    found = schema.schema(op, PORTABLE.max_opset)
    inputs = (
        [value for value in found.inputs if value.option != defs.OpSchema.FormalParameterOption.Optional]
        if found
        else []
    )
    types = _common_types(found, inputs[0].type_str) if found and inputs else ()
    attributes = [a for a in found.attributes.values() if a.required] if found else []
    if found is None or found.deprecated or not types or any(a.type not in _VALUES for a in attributes):
        raise UsageError(f"no rule can be begun with {op}: take an operator of floating-point values, such as Relu")
    stated = ", ".join(f"{a.name}: {_VALUES[a.type]}" for a in attributes)
    names = {f"x{number}" if number else "x": value.type_str for number, value in enumerate(inputs)}
    main = inputs[0].type_str
    guards = {name: "T" if type_ == main else _other_type(found, type_) for name, type_ in names.items()}
    return _Call(f"{op} <{stated}>" if stated else op, guards, types, max(13, found.since_version))


def _allowed(found: defs.OpSchema, variable: str) -> list[str]:
    """Return the element types that a type variable of an operator ranges over."""
    constraints = {c.type_param_str: c.allowed_type_strs for c in found.type_constraints}
    names = constraints.get(variable, [variable])
    return [name.removeprefix("tensor(").removesuffix(")") for name in names if name.startswith("tensor(")]


def _common_types(found: defs.OpSchema, variable: str) -> tuple[str, ...]:
    allowed = _allowed(found, variable)
    return tuple(name for name in _FLOATS if name in allowed)


def _other_type(found: defs.OpSchema, variable: str) -> str:
    allowed = _allowed(found, variable)
    return next((name for name in ("int64", "bool", "float") if name in allowed), "any")


def _parameters(call: _Call, shapes: Mapping[str, str]) -> str:
    types = {name: call.types[0] if type_ in ("T", "any") else type_ for name, type_ in call.inputs.items()}
    return ", ".join(f"{types[name]}[{dims}] {name}" for name, dims in shapes.items())


def _sample(op: str, call: _Call) -> tuple[dict[str, str], str]:
    """Return shapes of the inputs that the operator takes, and the type of its result as ONNX text."""
    for shapes in _candidates(call):
        text = f"g ({_parameters(call, shapes)}) => (y) {{ y = {call.text} ({', '.join(call.inputs)}) }}"
        graph = onnx.parser.parse_graph(text)
        model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", call.opset)])
        try:
            value = shape_inference.infer_shapes(model, strict_mode=True, check_type=True).graph.output[0]
        except shape_inference.InferenceError:
            continue
        tensor = value.type.tensor_type
        if tensor.elem_type and tensor.HasField("shape") and all(dim.HasField("dim_value") for dim in tensor.shape.dim):
            name = TensorProto.DataType.Name(tensor.elem_type).lower()
            return shapes, f"{name}[{', '.join(str(dim.dim_value) for dim in tensor.shape.dim)}]"
    raise UsageError(f"no shapes are known with which {op} can be tried: begin with Relu and change the file")


def _candidates(call: _Call) -> Iterator[dict[str, str]]:
    """Yield shapes to try: first the same for all inputs, then all ways for operators of few inputs."""
    yield from (dict.fromkeys(call.inputs, dims) for dims in _SHAPES)
    if len(call.inputs) <= 3:
        for chosen in product(_SHAPES, repeat=len(call.inputs)):
            yield dict(zip(call.inputs, chosen, strict=True))
