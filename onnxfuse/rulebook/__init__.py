"""Rules as data: TOML files holding ONNX text, read into `Rule`, and either side of them as ONNX nodes."""
