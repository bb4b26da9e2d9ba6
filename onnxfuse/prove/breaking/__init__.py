"""Models in which one thing is not as a match text says."""
