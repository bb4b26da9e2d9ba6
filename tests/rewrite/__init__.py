"""Tests of changing a graph: folding, splicing, names, scopes, clean-up, the fixpoint."""
