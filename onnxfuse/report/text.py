"""The report for terminals: a header, one line per fusion, what changed, how it was validated, the verdict last."""

from __future__ import annotations

from typing import TYPE_CHECKING

from onnxfuse.report.fusion_lines import fusion_lines
from onnxfuse.report.undone_lines import undone_lines
from onnxfuse.report.validation_lines import failure_phrase, validation_lines
from onnxfuse.report.wording import Style, counted, plain, printable, quoted, size

if TYPE_CHECKING:
    from onnxfuse.report.record import ModelRecord, Report

_INDENT = "  "


def render(report: Report, *, verbosity: int = 0, style: Style = plain) -> str:
    """Render ``report`` as lines, each ended by a newline.

    ``verbosity`` below 0 gives the verdict only, above 0 every fusion, near miss and run. ``style`` may colour parts;
    the marks ``+ - ~ !`` say the same without colour.
    """
    if verbosity < 0:
        return verdict_line(report, style) + "\n"
    body = [
        *fusion_lines(report.fusions, verbosity > 0, style),
        *undone_lines(report.undone, style),
        *_near_miss_lines(report, verbosity > 0, style),
        *_change_table(report.model, style),
        *(f"~ {printable(step)}" for step in report.steps),
        *validation_lines(report.validation, verbosity > 0, style),
    ]
    lines = [_header(report.model, style), *(_INDENT + line for line in body), verdict_line(report, style)]
    return "".join(line.rstrip() + "\n" for line in lines)


def verdict_line(report: Report, style: Style = plain) -> str:
    """One line that says how it ended, whole without the rest of the report."""
    mark, role = ("!", "bad") if report.verdict == "mismatch" else ("+", "good")
    name = _model_name(report.model)
    if report.model.output is not None:
        name += f" -> {printable(report.model.output)}"
    facts = ", ".join(_verdict_facts(report))
    return f"{style(mark, role)} {name}: {style(report.verdict, role)}, {facts}"


def _verdict_facts(report: Report) -> list[str]:
    if report.verdict == "mismatch":
        assert report.validation is not None
        return [*failure_phrase(report.validation), "nothing written"]
    if report.verdict == "unchanged":
        undone = f"{counted(len(report.undone), 'fusion')} undone" if report.undone else "no rule matched"
        return [undone, *_written(report)]
    nodes = report.model.nodes
    facts = [counted(len(report.fusions), "fusion"), f"{nodes.before:,} -> {nodes.after:,} nodes"]
    if report.undone:
        facts.insert(1, f"{len(report.undone)} undone")
    if report.validation is None:
        return [*facts, "not validated", *_written(report)]
    return [*facts, f"validated on {report.validation.provider}", *_written(report)]


def _written(report: Report) -> list[str]:
    return ["nothing written"] if report.model.output is None else []


def _model_name(model: ModelRecord) -> str:
    return "model in memory" if model.path is None else printable(model.path)


def _header(model: ModelRecord, style: Style) -> str:
    facts = [counted(model.nodes.before, "node")]
    if model.opset.before is not None:
        facts.insert(0, f"opset {model.opset.before}")
    if model.bytes.before is not None:
        facts.append(size(model.bytes.before))
    return f"{style(_model_name(model), 'strong')}  {', '.join(facts)}"


def _near_miss_lines(report: Report, every: bool, style: Style) -> list[str]:
    misses = report.near_misses
    if not misses:
        return []
    if not every:
        return [style(f"- {counted(len(misses), 'near miss', 'near misses')} (-v tells why)", "faint")]
    return [f"- {miss.rule}  not at {quoted(miss.node)}: {printable(miss.reason)}" for miss in misses]


def _change_table(model: ModelRecord, style: Style) -> list[str]:
    """Rows of (mark, what, before, after) for each operator whose count changed, then opset, nodes and size."""
    rows = _op_rows(model) + _total_rows(model)
    if not rows:
        return []
    widths = [max(len(cell) for cell in column) for column in zip(*rows, ("", "", "before", "after"), strict=True)]
    head = f"{'':{widths[0]}} {'':{widths[1]}}  {'before':>{widths[2]}}  {'after':>{widths[3]}}"
    lines = [style(head, "faint")]
    for mark, what, before, after in rows:
        lines.append(f"{mark:1} {what:{widths[1]}}  {before:>{widths[2]}}  {after:>{widths[3]}}")
    return lines


def _op_rows(model: ModelRecord) -> list[tuple[str, str, str, str]]:
    before, after = model.ops.before, model.ops.after
    rows = []
    for op in sorted(before.keys() | after.keys()):
        old, new = before.get(op, 0), after.get(op, 0)
        if old != new:
            rows.append(("+" if new > old else "-", printable(op), f"{old:,}", f"{new:,}"))
    return rows


def _total_rows(model: ModelRecord) -> list[tuple[str, str, str, str]]:
    rows = []
    if model.nodes.before != model.nodes.after:
        rows.append((" ", "all nodes", f"{model.nodes.before:,}", f"{model.nodes.after:,}"))
    if model.opset.before != model.opset.after:
        rows.append((" ", "opset", str(model.opset.before), str(model.opset.after)))
    old, new = model.bytes.before, model.bytes.after
    if old is not None and new is not None and old != new:
        exact = size(old) == size(new)
        rows.append((" ", "size", _bytes(old, exact), _bytes(new, exact)))
    return rows


def _bytes(count: int, exact: bool) -> str:
    return f"{count:,} B" if exact else size(count)
