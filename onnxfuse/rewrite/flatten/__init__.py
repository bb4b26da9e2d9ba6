"""Bodies put in the place of the node that holds or calls them: constant Ifs, local functions, short Loops."""

from onnxfuse.rewrite.flatten.flattening import flatten

__all__ = ["flatten"]
