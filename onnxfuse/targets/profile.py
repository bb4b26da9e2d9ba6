"""What a runtime takes, as data."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Profile:
    """A kind of runtime: its name and the highest opset of the default domain that it loads."""

    name: str
    max_opset: int


# Standard operators only.  onnxruntime 1.31 loads opset 26 and refuses 27.
PORTABLE = Profile("portable", max_opset=26)
