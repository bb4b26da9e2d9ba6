"""What is wrong with a rule that can be read: names that do not fit together, and what lint finds beyond that."""
