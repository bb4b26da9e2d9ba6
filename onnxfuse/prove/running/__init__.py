"""Running models on onnxruntime, the engine on them, and comparing what they give."""
