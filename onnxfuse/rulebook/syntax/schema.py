"""The JSON Schema of rule files, for editors that complete and check TOML; made of the table of keys."""

from __future__ import annotations

from typing import Any

from onnxfuse.rulebook.syntax.keys import FORMS, RULE


def rule_schema() -> dict[str, Any]:
    """Return the JSON Schema (draft 2020-12) of a rule file."""
    return _document("onnxfuse rule", RULE.schema())


def forms_schema() -> dict[str, Any]:
    """Return the JSON Schema (draft 2020-12) of forms.toml."""
    return _document("onnxfuse forms", FORMS.schema())


def _document(title: str, body: dict[str, Any]) -> dict[str, Any]:
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": title, **body}
