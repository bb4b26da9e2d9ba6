"""The walk over protobuf's wire format, against protobuf itself and the definition of ONNX."""

from __future__ import annotations

import tempfile
from pathlib import Path

import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import AttributeProto, GraphProto, ModelProto, NodeProto, TensorProto, helper

from onnxfuse.model.weights import views, wire
from onnxfuse.model.weights.data import DataFiles
from onnxfuse.model.weights.packing import inline_pieces
from onnxfuse.model.weights.source import Source, Span

from . import rich


def roundtrip(proto: ModelProto) -> tuple[ModelProto, ModelProto]:
    """Return the skeleton of a model, and the model filled from it again."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "m.onnx")
        path.write_bytes(proto.SerializeToString())
        source = Source(path)
        skeleton, _ = views.strip(path.read_bytes(), "m.onnx")
        parsed = ModelProto.FromString(skeleton)
        pieces = inline_pieces(parsed.SerializeToString(), DataFiles(path.parent, source))
        whole = b"".join(piece.read() if isinstance(piece, Span) else piece for piece in pieces)
        return parsed, ModelProto.FromString(whole)


def reaching_tensors() -> dict[str, dict[int, str]]:
    """Work out from ONNX's own descriptors through which fields of which messages a tensor is reached."""
    messages = onnx.onnx_ml_pb2.DESCRIPTOR.message_types_by_name
    edges = {name: {f.number: f.message_type.name for f in message.fields if f.message_type}
             for name, message in messages.items()}  # fmt: skip
    reaching = {"TensorProto"}
    while True:
        more = {name for name, fields in edges.items() if reaching & set(fields.values())} | reaching
        if more == reaching:
            break
        reaching = more
    return {name: {number: child for number, child in edges[name].items() if child in reaching}
            for name in reaching - {"TensorProto"}}  # fmt: skip


def test_children_are_all_that_onnx_defines() -> None:
    assert reaching_tensors() == wire.CHILDREN


def test_rich_model_is_stripped_everywhere_and_filled_again() -> None:
    proto = rich.model()
    skeleton, whole = roundtrip(proto)
    assert whole == proto
    assert "raw_data" not in {
        field.name
        for tensor in skeleton.graph.initializer
        for field, _ in tensor.ListFields()
        if len(tensor.raw_data) >= views.VIEW_MIN_BYTES
    }
    # 4 bodies of the graph, 2 of training, each with two weights; function; 8 of sparse tensors; 1 of `tensors`.
    assert len(list(views.viewed_tensors(skeleton.SerializeToString()))) == 12 + 1 + 8 + 1 + 2 + len(rich.ODD_TYPES)


def test_views_lead_to_the_bytes_of_the_file() -> None:
    data = rich.model().SerializeToString()
    skeleton, count = views.strip(data, "m.onnx")
    found = list(views.viewed_tensors(skeleton))
    originals = {t.name: t.raw_data for t in rich.model().graph.initializer}
    assert count == len(found)
    for tensor, (location, offset, length) in found:
        assert location == "m.onnx" and length is not None
        if tensor.name in originals:
            assert data[offset : offset + length] == originals[tensor.name]


@pytest.mark.parametrize("size", [views.VIEW_MIN_BYTES - 1, views.VIEW_MIN_BYTES])
def test_only_large_raw_data_is_viewed(size: int) -> None:
    weight = TensorProto(name="w", data_type=TensorProto.INT8, raw_data=bytes(size))
    proto = ModelProto(graph=GraphProto(initializer=[weight]))
    skeleton, count = views.strip(proto.SerializeToString(), "m")
    assert count == (size == views.VIEW_MIN_BYTES)
    assert ModelProto.FromString(skeleton).graph.initializer[0].HasField("raw_data") == (count == 0)


@pytest.mark.parametrize("data", [
    pytest.param(b"\x3a\x05abc", id="submessage longer than the file"),
    pytest.param(b"\x08", id="no value"),
    pytest.param(b"\x08" + b"\xff" * 11, id="varint without end"),
    pytest.param(b"\x0d\x01\x02", id="fixed32 cut"),
    pytest.param(b"\x0b\x0c", id="group"),
    pytest.param(b"\x00\x01", id="field number 0"),
    pytest.param(b"\x3a\x82\x10" + b"\x2a\xff\xff\x7f" + bytes(2046), id="tensor longer than its graph"),
])  # fmt: skip
def test_broken_bytes_are_refused(data: bytes) -> None:
    with pytest.raises(wire.WireError):
        views.strip(data, "m")


def test_endless_nesting_is_refused() -> None:
    graph = wire.delimited(10, bytes(2 * views.VIEW_MIN_BYTES))
    for _ in range(300):
        graph = wire.delimited(1, wire.delimited(5, wire.delimited(6, graph)))
    with pytest.raises(wire.WireError, match="nested"):
        views.strip(wire.delimited(7, graph), "m")


@given(st.integers(0, 2**63 - 1))
def test_varint_is_read_back(value: int) -> None:
    encoded = wire.varint(value)
    assert wire.read_varint(encoded, 0, len(encoded)) == (value, len(encoded))


sizes = st.one_of(st.integers(0, 40), st.integers(1000, 1050), st.integers(2000, 20_000))


@st.composite
def tensors(draw: st.DrawFn) -> TensorProto:
    size = draw(sizes)
    made = TensorProto(name=draw(st.text(max_size=5)), data_type=TensorProto.INT8, dims=[size])
    kind = draw(st.sampled_from(("raw", "raw", "raw, spelled out", "typed", "external", "both")))
    if kind.startswith("raw") or kind == "both":
        made.raw_data = bytes([size % 251]) * size
    if kind == "raw, spelled out":
        made.data_location = TensorProto.DEFAULT
    if kind == "typed":
        made.int32_data.extend([7] * size)
    if kind in ("external", "both"):
        made.data_location = TensorProto.EXTERNAL
        made.external_data.add(key="location", value=draw(st.sampled_from(("other", "w.bin"))))
    if draw(st.booleans()):
        made.doc_string = "location"
        made.MergeFromString(rich.UNKNOWN_FIELD)
    return made


def attributes(graphs: st.SearchStrategy[GraphProto]) -> st.SearchStrategy[AttributeProto]:
    lists = st.lists(tensors(), min_size=1, max_size=3)
    values = st.one_of(tensors(), lists, graphs, st.integers(0, 9), st.text(max_size=9))
    return values.map(lambda value: helper.make_attribute("a", value))


def graphs_with(inner: st.SearchStrategy[GraphProto]) -> st.SearchStrategy[GraphProto]:
    nodes = st.lists(attributes(inner), max_size=3).map(lambda found: NodeProto(op_type="Op", attribute=found))
    return st.builds(lambda n, i, d: GraphProto(node=n, initializer=i, doc_string=d),
                     st.lists(nodes, max_size=3), st.lists(tensors(), max_size=3), st.text(max_size=9))  # fmt: skip


graphs = st.recursive(st.lists(tensors(), max_size=2).map(lambda found: GraphProto(initializer=found)), graphs_with,
                      max_leaves=6)  # fmt: skip


@settings(max_examples=60, deadline=None)
@given(graphs)
def test_fill_undoes_strip(graph: GraphProto) -> None:
    proto = ModelProto(ir_version=9, graph=graph)
    assert roundtrip(proto)[1] == proto
