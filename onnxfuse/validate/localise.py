"""Where a result parts from the original: both run once more, with values inside them exposed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from onnx import GraphProto, NodeProto

from onnxfuse.model.file import ModelFile
from onnxfuse.validate.compare import compare
from onnxfuse.validate.reference import run_by_name
from onnxfuse.validate.result import OutputCheck
from onnxfuse.validate.sessions import Value, open_session
from onnxfuse.validate.tolerance import Tolerance


def first_partings(
    original: ModelFile,
    result: ModelFile,
    names: Sequence[str],
    *,
    feeds: Mapping[str, Value],
    optimized: bool,
    provider: str,
    tolerance: Tolerance,
) -> list[OutputCheck]:
    """Return the checks of the named values that differ and depend on none that differs, in the result's order.

    Looked at are those that the main graphs of both models compute. ``optimized`` is for the result; the original runs
    without. Raises Refused when one of the models does not run so.
    """
    both = set(_given(original.proto.graph)) & set(_given(result.proto.graph))
    looked_at = [name for name in dict.fromkeys(names) if name in both]
    wanted = _run(original, looked_at, feeds, False, provider)
    found = _run(result, looked_at, feeds, optimized, provider)
    checks = {name: compare(name, wanted[name], found[name], tolerance) for name in looked_at}
    return list(_first(result.proto.graph, checks))


def _run(
    model: ModelFile, names: Sequence[str], feeds: Mapping[str, Value], optimized: bool, provider: str
) -> dict[str, Value]:
    outputs = {output.name for output in model.proto.graph.output}
    expose = [name for name in names if name not in outputs]
    return run_by_name(open_session(model, optimized=optimized, provider=provider, expose=expose), feeds)


def _given(graph: GraphProto) -> Iterator[str]:
    for node in graph.node:
        yield from filter(None, node.output)


def _first(graph: GraphProto, checks: Mapping[str, OutputCheck]) -> Iterator[OutputCheck]:
    """Yield the failed checks of values that are computed from none that differs.

    Behind a value that agrees again, whatever differs is another fault.
    """
    tainted: set[str] = set()
    for node in graph.node:
        dirty = not tainted.isdisjoint(_read(node))
        for name in node.output:
            check = checks.get(name)
            if check is not None and not check.ok:
                tainted.add(name)
                if not dirty:
                    yield check
            elif check is None and dirty:
                tainted.add(name)


def _read(node: NodeProto) -> Iterator[str]:
    """Yield the names that a node reads, those in its nested graphs included."""
    yield from node.input
    for attribute in node.attribute:
        for graph in [attribute.g] if attribute.HasField("g") else attribute.graphs:
            for inner in graph.node:
                yield from _read(inner)
            yield from (output.name for output in graph.output)
