"""Every key of a rule file and of forms.toml: what it may hold and what it means, in this one place.

The loader checks files by these tables, `onnxfuse rules schema` prints them for editors, rules/README.md explains them.
"""

from __future__ import annotations

from typing import Final

from onnxfuse.rulebook.syntax.element_types import ELEMENT_TYPES
from onnxfuse.rulebook.syntax.kinds import Flag, Key, ListOf, MapOf, Number, OneOf, Record, Str, Whole
from onnxfuse.rulebook.syntax.limits import MAX_NAME, MAX_SENTENCE

# The version of the rule format that this onnxfuse reads; a file may state its own as `format`.
FORMAT: Final = 1

SAFETY: Final = ("exact", "rounding", "unsafe")
STATUS: Final = ("preview", "stable", "deprecated")
ATTRIBUTE_TYPES: Final = ("float", "int", "string", "floats", "ints", "strings", "type")

_MAX_OPSET, _MAX_ORDER, _MAX_DIM = 999, 1000, 1 << 31

_SENTENCE = Str("a sentence", most=MAX_SENTENCE)
_NAME = Str("a name", most=MAX_NAME)
_TEXT = Str("ONNX text")
_OPSET = Whole(1, _MAX_OPSET, "an opset")
_DIM = Whole(0, _MAX_DIM, "a dim")
_ELEMENT_TYPE = Str("an ONNX element type", choices=tuple(sorted(ELEMENT_TYPES)))
_ELEMENT_TYPES = ListOf(_ELEMENT_TYPE, "a list of element types", least=1, most=32)
_INTERVAL = ListOf(Number(), "a list of two numbers", least=2, most=2)
_SCALAR = OneOf((Number(), Str(), Flag()), "a number or a string")
_ATTRIBUTE = OneOf((_SCALAR, ListOf(_SCALAR, "a list")), "a number, a string or a list of them")

CONSTANT: Final = Record("[constants]", {
    "rtol": Key(Number(), "How near (relative) the number in a model must be.", "rtol = 1e-4"),
    "value": Key(Number(), "The number to 64 bits, where the text holds only 32.", "value = 1.4142135623730951"),
})  # fmt: skip

ATTRIBUTE: Final = Record("[attributes]", {
    "type": Key(
        Str("an attribute type", ATTRIBUTE_TYPES), "Its type; `type` is an element type, as of Cast.", 'type = "float"'
    ),
    "default": Key(_ATTRIBUTE, "Its value in samples that do not give one.", "default = 1e-5"),
    "range": Key(_INTERVAL, "The values for which the rule holds.", "range = [0.0, 1.0]"),
    "covers": Key(_NAME, "These axes are just the dims of this group, and the last ones.", 'covers = "V"'),
    "among": Key(_ELEMENT_TYPES, "It must be one of these element types.", 'among = ["float", "double"]'),
})  # fmt: skip

MATCH: Final = Record("[[match]]", {
    "name": Key(_NAME, "What reports call this spelling.", 'name = "cast-first"', default="match"),
    "opset": Key(_OPSET, "The opset in which this text is written, if not the rule's.", "opset = 17"),
    "text": Key(_TEXT, "What is looked for, as ONNX text.", "text = '(x) => (y) { y = Relu (x) }'", required=True),
})  # fmt: skip

REWRITE: Final = Record("[rewrite]", {
    "text": Key(_TEXT, "What takes its place, as ONNX text.", "text = '(x) => (y) { y = Abs (x) }'", required=True),
})  # fmt: skip

REQUIRE: Final = Record("[[require]]", {
    "why": Key(_SENTENCE, "What must hold, in words; reports say so where it does not.",
               'why = "the permutation is the identity"', required=True),
    "text": Key(_TEXT, "ONNX text that computes one truth value from constants, attributes and dims.",
                "text = '(c) => (ok) { zero = Constant <value_float: float = 0.0> ()  ok = Less (zero, c) }'",
                required=True),
})  # fmt: skip

SAMPLE: Final = Record("[[sample]]", {
    "shapes": Key(
        MapOf(OneOf((_DIM, ListOf(_DIM, "a list of dims", most=16)), "a dim or a list of dims"), "a table of shapes"),
        "The shape of each input, or the length of a named dim.",
        "shapes = { x = [2, 3], M = 4 }",
    ),
    "attributes": Key(
        MapOf(OneOf((_ATTRIBUTE, MapOf(_ATTRIBUTE, "a table")), "a value or a table of values"), "a table of values"),
        "Values of the rule's attributes; `label.name` for those that a kept node has beside them.",
        "attributes = { epsilon = 1e-2, conv.group = 2 }",
    ),
    "absent": Key(ListOf(_NAME, "a list of inputs"), "Optional inputs and attributes that are not there.",
                  'absent = ["b"]'),
})  # fmt: skip

REJECT: Final = Record("[[reject]]", {
    "why": Key(_SENTENCE, "Why the graph must stay as it is.", 'why = "the product is read twice"', required=True),
    "text": Key(_TEXT, "An ONNX graph that must not match.",
                "text = 'g (float[2] x) => (float[2] y) { y = Abs (x) }'", required=True),
})  # fmt: skip

FORM: Final = Record("[[form]]", {
    "text": Key(_TEXT, "One spelling of the form, as ONNX text.", "text = '(x) => (y) { y = Mul (x, x) }'",
                required=True),
    "opset": Key(_OPSET, "The opset in which this text is written.", "opset = 18", default=18),
    "constants": Key(MapOf(CONSTANT, "a table"), "Of its Constants.", "constants = { k = { rtol = 1e-4 } }"),
})  # fmt: skip

_FORMAT = Key(Whole(1, FORMAT), "The version of the rule format.", f"format = {FORMAT}", default=FORMAT)

RULE: Final = Record("the rule", {
    "format": _FORMAT,
    "summary": Key(_SENTENCE, "What the rule does: one sentence, present tense.",
                   'summary = "Recognise the erf form of GELU."', required=True),
    "why": Key(Str("a text", most=1000), "What is gained, and why it is right.",
               'why = "One kernel in place of five."'),
    "source": Key(Str("a text", most=1000), "Where the algebra comes from.", 'source = "Ioffe and Szegedy, 2015"'),
    "exporters": Key(ListOf(_SENTENCE, "a list of sentences", most=32), "Who writes models that hold this.",
                     'exporters = ["PyTorch, below opset 20"]'),
    "opset": Key(_OPSET, "The opset in which the texts are written.", "opset = 18", required=True),
    "also": Key(ListOf(_OPSET, "a list of opsets", most=64), "Further opsets at which the rule is verified.",
                "also = [7, 13, 17]"),
    "types": Key(OneOf((_ELEMENT_TYPES, MapOf(_ELEMENT_TYPES, "a table")), "a list, or a table of lists"),
                 "What T ranges over; a table for several type variables.", 'types = ["float", "float16"]',
                 default=["float"]),
    "safety": Key(Str("a string", SAFETY), "exact; rounding: only its order changes; unsafe: never on by default.",
                  'safety = "rounding"', default="rounding"),
    "status": Key(Str("a string", STATUS), "How mature the rule is.", 'status = "stable"', default="stable"),
    "order": Key(Whole(0, _MAX_ORDER), "Rules of a lower order go first.", "order = 50", default=50),
    "keep": Key(MapOf(_NAME, "a table"), "label -> operator: that node keeps the attributes that the text leaves out.",
                'keep = { conv = "Conv" }'),
    "inputs": Key(MapOf(Str("a guard", most=MAX_SENTENCE), "a table of guards"),
                  'A guard for each input: "[own] [const] TYPE[dims]? -> [dims]".', 'inputs = { x = "T[N, C, ...]" }',
                  required=True),
    "absent": Key(MapOf(Str("a sentence"), "a table"),
                  "What stands for an optional input that is not there; empty: nothing, nor for what depends on it.",
                  'absent = { b = "Sub (mean, mean)" }'),
    "attributes": Key(MapOf(ATTRIBUTE, "a table of tables"), "The attributes that the texts bind with @name.",
                      'attributes = { epsilon = { type = "float" } }'),
    "constants": Key(MapOf(CONSTANT, "a table of tables"), "Of the Constants in the match texts, by name.",
                     "constants = { root2 = { rtol = 1e-4 } }"),
    "derive": Key(MapOf(_NAME, "a table"), "attribute -> a value of the rewrite that folds to a constant.",
                  'derive = { axis = "axis" }'),
    "require": Key(ListOf(REQUIRE, "an array of tables", most=16), "What must be true of constants and attributes.",
                   "[[require]]"),
    "draw": Key(MapOf(_INTERVAL, "a table of intervals"), "The range of an input's test data; not a guard.",
                "draw = { var = [0.1, 2.0] }"),
    "match": Key(ListOf(MATCH, "an array of tables", least=1, most=64), "What is looked for: one table a spelling.",
                 "[[match]]", required=True),
    "rewrite": Key(REWRITE, "What takes its place.", "[rewrite]", required=True),
    "sample": Key(ListOf(SAMPLE, "an array of tables"), "Shapes on which both sides are run and compared.",
                  "[[sample]]"),
    "reject": Key(ListOf(REJECT, "an array of tables"), "Graphs that must stay as they are.", "[[reject]]"),
})  # fmt: skip

FORMS: Final = Record("forms.toml", {
    "format": _FORMAT,
    "form": Key(MapOf(ListOf(FORM, "an array of tables", least=1, most=64), "a table of forms"),
                "The spellings of each form: [[form.NAME]].", "[[form.Square]]", required=True),
})  # fmt: skip
