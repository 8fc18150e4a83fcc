"""What every stage of the pipeline shares and all that serving needs."""

import os

# Before anybody imports onnxruntime, which would otherwise report its use to its maker, write to
# the home directory, and complain where it cannot. Whoever wants that sets the variable to 0.
os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
