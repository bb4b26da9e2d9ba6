"""How a rule file is written: its keys, the kinds of values they hold, ONNX text and guards, and the limits of each."""
