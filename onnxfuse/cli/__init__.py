"""The command line: options, streams, colour, progress and exit codes. No module here imports onnx when it loads."""
