"""Target profiles: what the runtimes that a result is made for can take."""

from onnxfuse.targets.profile import PORTABLE, Profile

__all__ = ["PORTABLE", "Profile"]
