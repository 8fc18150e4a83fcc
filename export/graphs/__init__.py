"""ONNX graphs: of torch models in fp32, and quantised."""
