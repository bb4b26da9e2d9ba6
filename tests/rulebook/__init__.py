"""Tests of reading rules."""
