"""Finding rules in a graph: match texts compiled to patterns, a search at a node, near misses with reasons."""
