"""Tests of finding a rule in a graph."""
