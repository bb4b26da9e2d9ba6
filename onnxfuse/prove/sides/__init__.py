"""Both sides of a rule as ordinary models: texts written out, samples made concrete, types, data."""
