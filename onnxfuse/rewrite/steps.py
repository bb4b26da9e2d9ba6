"""The names under which the engine's own steps are reported, and can be selected or ignored like rules."""

from __future__ import annotations

FUNCTION_INLINING = "function-inlining"
CONSTANT_IF = "constant-if"
LOOP_UNROLLING = "loop-unrolling"
IDENTITY = "identity"
SAME_TYPE_CAST = "same-type-cast"
NO_OP = "no-op"
COMMON_SUBEXPRESSION = "common-subexpression"
STATIC_RESHAPE = "static-reshape"
CONSTANT_FOLDING = "constant-folding"
DEAD_CODE = "dead-code"
UNUSED_IMPORT = "unused-import"

STEPS = {
    FUNCTION_INLINING: "Put the body of a local function in the place of a call.",
    CONSTANT_IF: "Put the branch that is always taken in the place of an If.",
    LOOP_UNROLLING: "Write out a Loop that runs a small known number of times.",
    IDENTITY: "Remove an Identity.",
    SAME_TYPE_CAST: "Remove a Cast to the type that the value already has.",
    NO_OP: "Remove a Reshape, Transpose, Slice, Pad, Concat or the like that leaves shape and elements as they are.",
    COMMON_SUBEXPRESSION: "Compute equal values once.",
    STATIC_RESHAPE: "Give a Reshape a constant shape where the computed one only copies dims and adds known numbers.",
    CONSTANT_FOLDING: "Turn what depends on no input into an initializer, unless that is larger than what it replaces.",
    DEAD_CODE: "Remove nodes and initializers that nothing reads, and local functions that nothing calls.",
    UNUSED_IMPORT: "Remove the import of an operator set that nothing uses.",
}
