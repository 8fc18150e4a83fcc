"""Exports torch encoders to ONNX encoder directories, and measures their parity."""
