"""From a torch encoder to an ONNX encoder directory, with its parity measured."""
