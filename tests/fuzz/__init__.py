"""Random models, and tests on them."""
