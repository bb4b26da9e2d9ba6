"""The exceptions onnxfuse raises; each carries the exit code that the command line gives it.

Exit codes: 1 the gate says no, 2 wrong use or unusable input, 3 a bug in onnxfuse.
"""

from __future__ import annotations


class OnnxfuseError(Exception):
    """Base of all errors raised on purpose; the message is one sentence fit to be shown to a user."""

    exit_code = 2


class UsageError(OnnxfuseError):
    """The call itself is wrong: an unknown rule name, output equal to input, a bad option value."""


class InputError(OnnxfuseError):
    """A model file, or data it refers to, cannot be used."""


class OutputError(OnnxfuseError):
    """The result cannot be written where it was asked for."""


class RuleError(OnnxfuseError):
    """A rule file is broken; the message begins with ``file:line:column:`` where they are known."""


class EndlessRulesError(OnnxfuseError):
    """Rules undo each other, or feed themselves, so rewriting this model would never end; others it may not meet."""


class OpsetError(OnnxfuseError):
    """The model cannot be raised to the wanted opset without loss."""


class ProviderError(OnnxfuseError):
    """The requested onnxruntime execution provider does not run here."""


class ValidationError(OnnxfuseError):
    """The result does not agree with the original model."""

    exit_code = 1


class OriginalFailsError(ValidationError):
    """onnxruntime cannot run the original model, so nothing can be proven about the result."""


class InternalError(OnnxfuseError):
    """An invariant of onnxfuse itself does not hold: a bug."""

    exit_code = 3
