"""How large and how deep a rule file may be.

Rule files come from strangers.  What nests is read by recursion, in Python and in onnx's C++, where too much of it ends
the process; what multiplies is multiplied before anybody sees it.  So both are counted first.  Every limit lies far
above what a rule that people read can need.
"""

from __future__ import annotations

import re
from typing import Final

# The largest file that comes with onnxfuse has 10 kB.
MAX_FILE_BYTES: Final = 256 * 1024
# All files under --rules together; a thousand ordinary rules have half of that.
MAX_TOTAL_BYTES: Final = 8 * 1024 * 1024
# Rule files under --rules together: to read as many takes some seconds.
MAX_FILES: Final = 2048
# Files and folders that are looked through for rules: a folder with more, such as `/`, is another one than was meant.
MAX_VISITED: Final = 50_000
# Brackets within brackets, in TOML and in ONNX text: nobody reads five, and onnx.parser has no end of its own.
MAX_DEPTH: Final = 32
# Parts of a dotted key, `conv.group`: the time to read one grows with the square of their number.
MAX_KEY_PARTS: Final = 16
# Lines of one text as it is written.
MAX_LINES: Final = 400
# Operators of a match text in its longest spelling: the search goes down into each; attention has 60.
MAX_OPERATORS: Final = 90
# Entries of a list or a table, and tables of one kind.
MAX_ENTRIES: Final = 512
# Lines of all match texts together after their forms are written out; the shipped rules have some hundreds.
MAX_WRITTEN_OUT: Final = 50_000
# Ways to choose the spellings of all forms that one match text calls: each is verified on its own.
MAX_SPELLINGS: Final = 4096
# Elements of one input of a sample; those of the shipped rules have some hundreds.
MAX_SAMPLE_ELEMENTS: Final = 1 << 16
# Elements of all values together of a model that is made of a sample; hundreds of such models are run.
MAX_MODEL_ELEMENTS: Final = 1 << 21
# Cases to be verified of one rule, before those are left out that come to the same: the largest shipped one has 2,000.
MAX_CASES: Final = 20_000
# A name of a rule, input, label or attribute.
MAX_NAME: Final = 64
# A sentence, such as a summary.
MAX_SENTENCE: Final = 300

# Strings and comments of TOML; one that is not closed goes on to the end, so that no character is looked at twice.
_TOML_PROSE = re.compile(
    r"'''.*?(?:'''|\Z)"
    r'|"""(?:\\.|[^\\])*?(?:"""|\Z)'
    r"|'[^'\n]*(?:'|$)"
    r'|"(?:\\.|[^"\\\n])*(?:"|$)'
    r"|#[^\n]*",
    re.DOTALL | re.MULTILINE,
)
_KEY_LIKE = re.compile(r"[\w \t.+-]+")
_ONNX_PROSE = re.compile(r'"(?:\\.|[^"\\])*(?:"|\Z)|#[^\n]*', re.DOTALL)
_UNUSUAL = re.compile(r"[^\n\t\r -~]")
_OPENING, _CLOSING = "([{<", ")]}>"


def toml_excess(text: str) -> tuple[str, int] | None:
    """Return what is too deep in a TOML file and where (an index), before a parser recurses into it."""
    code = _TOML_PROSE.sub(lambda found: "s" * len(found.group()), text)
    for run in _KEY_LIKE.finditer(code):
        if run.group().count(".") >= MAX_KEY_PARTS:
            return f"a key has more than {MAX_KEY_PARTS} parts", run.start()
    return _too_deep(code, "[{", "]}")


def onnx_excess(text: str) -> tuple[str, int] | None:
    """Return what is too deep in ONNX text and where (an index)."""
    if sum(map(text.count, _OPENING)) <= MAX_DEPTH:
        return None
    return _too_deep(onnx_code(text), _OPENING, _CLOSING)


def onnx_code(text: str) -> str:
    """Return ONNX text with comments and strings replaced by blanks, every other character in its place."""
    return _ONNX_PROSE.sub(lambda found: re.sub(r"[^\n]", " ", found.group()), text)


def unprintable(text: str) -> int | None:
    """Return the index of the first character that a terminal would obey instead of show, if there is one."""
    for found in _UNUSUAL.finditer(text):
        if not found.group().isprintable():
            return found.start()
    return None


def _too_deep(code: str, opening: str, closing: str) -> tuple[str, int] | None:
    """Count brackets; `=>` and `->` close nothing."""
    depth = 0
    for found in re.finditer("[" + re.escape(opening + closing) + "]", code):
        at = found.start()
        if found.group() in opening:
            depth += 1
        elif code[at - 1 : at] not in ("=", "-"):
            depth = max(0, depth - 1)
        if depth > MAX_DEPTH:
            return f"brackets are nested more than {MAX_DEPTH} deep", at
    return None
