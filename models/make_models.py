"""Make the sample models beside this file: ``cnn``, ``bert`` and ``llama``, each an .onnx and an .npz with inputs.

Needs torch and transformers (``pip install torch==2.13.0 transformers==5.24.0 onnx``); onnxfuse itself needs neither.

    python models/make_models.py [NAME ...]

The weights are random but look trained: a norm that is the identity, or a bias of zeros, would hide a wrong fusion.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
import transformers
from torch import Tensor, nn

HERE = Path(__file__).parent
BATCH, SEQUENCE, VOCABULARY = 2, 12, 97
SMALL = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4}


@dataclass(frozen=True)
class Sample:
    """A model, what to feed it, and how its outputs are called; ``axes`` are the dynamic ones of inputs and outputs."""

    model: nn.Module
    feeds: dict[str, np.ndarray]
    outputs: tuple[str, ...]
    axes: dict[int, str]
    opset: int
    keep_batchnorm: bool = False


class Cnn(nn.Module):
    """BatchNormalization behind Conv and ConvTranspose, with groups and without, and where it cannot be folded."""

    def __init__(self, width: int = 8) -> None:
        super().__init__()
        wide = 2 * width
        self.stem = nn.Sequential(
            nn.Conv2d(3, width, 3, stride=2, padding=1, bias=False), nn.BatchNorm2d(width, eps=1e-3), nn.ReLU()
        )
        self.depthwise = nn.Sequential(
            nn.Conv2d(width, width, 3, padding=1, groups=width), nn.BatchNorm2d(width), nn.ReLU6()
        )
        # Here the norms stand before the Conv, and the Relu between keeps the first from it.
        self.before = nn.Sequential(nn.BatchNorm2d(width), nn.ReLU(), nn.BatchNorm2d(width), nn.Conv2d(width, width, 1))
        self.up = nn.Sequential(nn.ConvTranspose2d(width, wide, 2, stride=2), nn.BatchNorm2d(wide), nn.LeakyReLU(0.1))
        self.up_grouped = nn.Sequential(
            nn.ConvTranspose2d(wide, wide, 2, stride=2, groups=4, bias=False), nn.BatchNorm2d(wide), nn.Hardswish()
        )
        self.head = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(wide, 5))

    def forward(self, image: Tensor) -> Tensor:
        x = self.stem(image)
        x = torch.relu(x + self.before(self.depthwise(x)))
        return self.head(self.up_grouped(self.up(x)))


class Text(nn.Module):
    """A transformers model with two plain inputs and the named fields of its result as outputs."""

    def __init__(self, model: nn.Module, outputs: tuple[str, ...], **options: bool) -> None:
        super().__init__()
        self.model, self.outputs, self.options = model, outputs, options

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> tuple[Tensor, ...]:
        result = self.model(input_ids=input_ids, attention_mask=attention_mask, **self.options)
        return tuple(result[name] for name in self.outputs)


def text_feeds() -> dict[str, np.ndarray]:
    """Two sentences, the second three tokens shorter."""
    mask = np.ones((BATCH, SEQUENCE), np.int64)
    mask[1, -3:] = 0
    return {"input_ids": np.random.default_rng(0).integers(3, VOCABULARY, mask.shape), "attention_mask": mask}


def cnn() -> Sample:
    """Make the CNN, for images of 32 x 32."""
    image = np.random.default_rng(0).standard_normal((BATCH, 3, 32, 32)).astype(np.float32)
    return Sample(Cnn(), {"image": image}, ("logits",), {0: "batch"}, 13, keep_batchnorm=True)


def bert() -> Sample:
    """Make a BERT encoder of two layers; opset 13 has neither LayerNormalization nor Gelu, so they come in parts."""
    outputs = ("last_hidden_state", "pooler_output")
    config = transformers.BertConfig(vocab_size=VOCABULARY, max_position_embeddings=64, **SMALL)
    config._attn_implementation = "eager"  # scaled_dot_product_attention needs opset 14
    model = Text(transformers.BertModel(config), outputs)
    return Sample(model, text_feeds(), outputs, {0: "batch", 1: "sequence"}, 13)


def llama() -> Sample:
    """Make a Llama decoder of two layers, two query heads to a key-value head, without a cache."""
    config = transformers.LlamaConfig(vocab_size=VOCABULARY, max_position_embeddings=64, num_key_value_heads=2, **SMALL)
    model = Text(transformers.LlamaForCausalLM(config), ("logits",), use_cache=False)
    return Sample(model, text_feeds(), ("logits",), {0: "batch", 1: "sequence"}, 17)


def look_trained(model: nn.Module) -> None:
    """Draw the statistics, scales and biases that initialisation leaves at 0 and 1."""
    for module in model.modules():
        kind = type(module).__name__
        if isinstance(module, nn.modules.batchnorm._BatchNorm):
            module.running_mean.normal_(0, 0.2)
            module.running_var.uniform_(0.5, 1.5)
        if "Norm" in kind and isinstance(getattr(module, "weight", None), nn.Parameter):
            module.weight.uniform_(0.7, 1.3)
        if isinstance(getattr(module, "bias", None), nn.Parameter):
            module.bias.normal_(0, 0.1)


def export(name: str, build: Callable[[], Sample]) -> None:
    """Write NAME.onnx with the TorchScript exporter, and NAME.npz with the inputs it was traced on."""
    torch.manual_seed(0)
    sample = build()
    model = sample.model.eval()
    with torch.no_grad():
        look_trained(model)
    # A [batch, features] output has no sequence axis, which the exporter accepts.
    axes = {key: dict(sample.axes) for key in (*sample.feeds, *sample.outputs)}
    axes.get("pooler_output", {}).pop(1, None)
    modes = torch.onnx.TrainingMode
    torch.onnx.export(
        model,
        tuple(torch.from_numpy(value) for value in sample.feeds.values()),
        str(HERE / f"{name}.onnx"),
        input_names=list(sample.feeds),
        output_names=list(sample.outputs),
        dynamic_axes=axes,
        opset_version=sample.opset,
        # EVAL lets the exporter fold BatchNormalization into Conv; many published models were written without that.
        training=modes.PRESERVE if sample.keep_batchnorm else modes.EVAL,
        dynamo=False,
    )
    np.savez(HERE / f"{name}.npz", **sample.feeds)


def main(names: list[str]) -> None:
    """Make the models named, or all."""
    warnings.filterwarnings("ignore")
    builders = {"cnn": cnn, "bert": bert, "llama": llama}
    for name in names or builders:
        export(name, builders[name])
        print(f"{name}.onnx: {(HERE / name).with_suffix('.onnx').stat().st_size} bytes")


if __name__ == "__main__":
    main(sys.argv[1:])
