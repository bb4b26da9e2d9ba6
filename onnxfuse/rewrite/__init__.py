"""Changing a graph: clean-up, replacements planned and spliced in, to a fixpoint, with a trace of what was done."""
