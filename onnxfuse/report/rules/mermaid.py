"""Diagrams as Mermaid flowcharts, which GitHub and GitLab draw in Markdown."""

from __future__ import annotations

from onnxfuse.report.rules.diagram import Diagram


def flowchart(diagram: Diagram) -> str:
    """Return a flowchart, ending in a newline: inputs and numbers above, outputs below, what is folded dashed."""
    boxes = {name: f"n{number}" for number, box in enumerate(diagram.boxes) for name in box.outputs}
    read = {name for box in diagram.boxes for name in box.inputs}
    leaves = {name: f"v{number}" for number, name in enumerate(diagram.leaves) if name in read}
    lines = ["flowchart TD"]
    for name, node in leaves.items():
        label = _label(diagram.leaves[name].caption)
        lines.append(f"    {node}([{label}])" if diagram.leaves[name].is_input else f"    {node}{{{{{label}}}}}")
    for number, box in enumerate(diagram.boxes):
        lines.append(f"    n{number}[{_label(box.caption)}]")
        lines += [f"    {(leaves | boxes)[name]} --> n{number}" for name in box.inputs if name]
    for number, (caption, name) in enumerate(diagram.ends.items()):
        lines += [f"    y{number}([{_label(caption)}])", f"    {boxes[name]} --> y{number}"]
    folded = [f"n{number}" for number, box in enumerate(diagram.boxes) if box.folded]
    if folded:
        lines += ["    classDef folded stroke-dasharray: 4 3", f"    class {','.join(folded)} folded"]
    return "\n".join(lines) + "\n"


def _label(text: str) -> str:
    """Return a label in quotes; Mermaid's own characters are written as entities."""
    entities = {'"': "#quot;", "<": "#lt;", ">": "#gt;", "#": "#35;", "&": "#amp;", "`": "#96;"}
    return '"' + "".join(entities.get(char, char) for char in text) + '"'
