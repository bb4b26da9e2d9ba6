"""What must change in a node whose operator means something else at a newer opset.

Every difference between two versions of an operator of the default domain from opset 7 to NEWEST was reviewed. Those
not listed here only allow more types, or add arguments whose defaults keep the meaning.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

import numpy as np
from onnx import helper

from onnxfuse.model.opset.site import Site

# The opsets that were reviewed; onnxruntime supports none below the first.
OLDEST: Final = 7
NEWEST: Final = 26

Adapter = Callable[[Site], None]


def _axes(since: int) -> Adapter:
    """Axes become an input."""

    def adapt(site: Site) -> None:
        axes = site.take("axes") if site.crosses(since) else None
        if axes:
            site.integers(1, axes, "axes")

    return adapt


def _split(site: Site) -> None:
    sizes = site.take("split") if site.crosses(13) else None
    if sizes:
        site.integers(1, sizes, "split")
    if site.crosses(18) and len(site.node.input) < 2:
        site.put("num_outputs", len(site.node.output))


def _slice(site: Site) -> None:
    if site.crosses(10):
        for index, name in ((1, "starts"), (2, "ends"), (3, "axes")):
            values = site.take(name)
            if values is not None:
                site.integers(index, values, name)


def _top_k(site: Site) -> None:
    if site.crosses(10):
        site.integers(1, [site.take("k")], "k")


def _clip(site: Site) -> None:
    if site.crosses(11):
        for index, name in ((1, "min"), (2, "max")):
            value = site.take(name)
            if value is not None:
                site.number(index, value, name)


def _pad(site: Site) -> None:
    if site.crosses(11):
        site.integers(1, site.take("pads"), "pads")
        value = site.take("value")
        if value:
            site.number(2, value, "value")


def _dropout(site: Site) -> None:
    mask = len(site.node.output) > 1 and site.node.output[1]
    if mask and (site.crosses(10) or site.crosses(12)):
        raise site.refuse("has a mask in use, which changed its meaning")
    ratio = site.take("ratio") if site.crosses(12) else None
    if ratio is not None:
        array = np.asarray(ratio, np.float32)
        site.set_input(1, site.scope.constant(array, f"{site.node.output[0]}/ratio"))


def _batch_normalization(site: Site) -> None:
    if site.crosses(9) and site.take("spatial") == 0:
        raise site.refuse("has spatial=0, which opset 9 dropped")
    if site.crosses(14) and any(site.node.output[1:]):
        raise site.refuse("is in training mode, which opset 14 changed")


def _softmax(site: Site) -> None:
    """Up to opset 12 the input is coerced to 2-D, so that all dimensions from axis on are taken together."""
    if not site.crosses(13):
        return
    axis = int(str(site.get("axis", 1)))
    dims = site.scope.type_of(site.node.input[0]).dims
    if axis == -1 or (dims is not None and axis % max(len(dims), 1) == len(dims) - 1):
        site.put("axis", axis)
        return
    data, result = site.node.input[0], site.node.output[0]
    shape, flat, flat_result = (site.fresh(name) for name in ("shape", "flat", "flat_result"))
    site.before += [
        helper.make_node("Shape", [data], [shape], shape),
        helper.make_node("Flatten", [data], [flat], flat, axis=axis),
    ]
    site.after.append(helper.make_node("Reshape", [flat_result, shape], [result], f"{flat_result}/reshape"))
    site.node.input[0], site.node.output[0] = flat, flat_result
    site.put("axis", -1)


def _upsample(site: Site) -> None:
    """Upsample is Resize since opset 10, with the scales an input since 9."""
    if site.old >= 10:
        raise site.refuse("has had no meaning since opset 10")
    scales = site.take("scales")
    if scales is not None:
        array = np.asarray(scales, np.float32)
        site.set_input(1, site.scope.constant(array, f"{site.node.output[0]}/scales"))
    if site.new >= 10:
        site.node.op_type = "Resize"
        _resize(site)


def _resize(site: Site) -> None:
    """Resize-10 has no coordinate modes: it is what 11 calls asymmetric, and rounds down where it enlarges."""
    if not site.crosses(11):
        return
    scales = _scales(site)
    if site.get("mode", b"nearest") == b"nearest":
        if scales is None or (scales < 1).any():
            raise site.refuse("picks the nearest value with scales that are not known to be 1 or more")
        site.put("nearest_mode", "floor")
    site.put("coordinate_transformation_mode", "asymmetric")
    data, factors = site.node.input
    region = "" if site.new >= 13 else site.scope.constant(np.empty(0, np.float32), f"{site.node.output[0]}/roi")
    del site.node.input[:]
    site.node.input.extend([data, region, factors])


def _scales(site: Site) -> np.ndarray | None:
    created = {name: key for key, name in site.scope.constants.items()}.get(site.node.input[1])
    if created is not None:
        return np.frombuffer(created[1], np.float32)
    return site.scope.tensor(site.node.input[1])


def _grid_sample(site: Site) -> None:
    names = {b"bilinear": "linear", b"bicubic": "cubic"}
    mode = site.get("mode")
    if site.crosses(20) and isinstance(mode, bytes) and mode in names:
        site.put("mode", names[mode])


def _roi_align(site: Site) -> None:
    if site.crosses(16):
        site.put("coordinate_transformation_mode", "output_half_pixel")


def _dft(site: Site) -> None:
    if site.crosses(20):
        axis = site.take("axis")
        site.integers(2, 1 if axis is None else axis, "axis")


def _scatter(site: Site) -> None:
    if site.new >= 11:
        site.node.op_type = "ScatterElements"


def _group_normalization(site: Site) -> None:
    if site.crosses(21):
        raise site.refuse("has a scale for each group, where opset 21 wants one for each channel")


def _scan(site: Site) -> None:
    if site.crosses(9):
        raise site.refuse("has a batch axis, which opset 9 dropped")


ADAPTERS: Final[Mapping[str, Adapter]] = {
    **{f"Reduce{kind}": _axes(18) for kind in
       ("L1", "L2", "LogSum", "LogSumExp", "Max", "Mean", "Min", "Prod", "SumSquare")},
    "ReduceSum": _axes(13), "Squeeze": _axes(13), "Unsqueeze": _axes(13),
    "Softmax": _softmax, "LogSoftmax": _softmax, "Hardmax": _softmax,
    "Split": _split, "Slice": _slice, "TopK": _top_k, "Clip": _clip, "Pad": _pad, "Dropout": _dropout,
    "BatchNormalization": _batch_normalization, "GroupNormalization": _group_normalization,
    "Upsample": _upsample, "Resize": _resize, "GridSample": _grid_sample, "RoiAlign": _roi_align,
    "DFT": _dft, "Scatter": _scatter, "Scan": _scan,
}  # fmt: skip
