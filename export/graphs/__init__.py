"""ONNX graphs: tracing, simplification and quantisation."""
