"""The core of the library: everything that a search needs."""

import os

# Set before onnxruntime is imported. Otherwise onnxruntime sends usage data to its maker and writes
# to the home directory. Users can allow this by setting the variable to 0.
os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
