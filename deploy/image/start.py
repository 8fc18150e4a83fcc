"""Starts `swiftlet` in a container, with the paths of the index and the encoder.

If a volume is mounted at /data, both are read from it, and an empty volume is an error. Without a
volume they are those that the image was built with. SWIFTLET_INDEX and SWIFTLET_ENCODER override
both.
"""

import os
import signal
import sys
from pathlib import Path

from service.admission.memory_limit import BASE_BYTES, check_bytes, memory_limit
from swiftlet.errors import InvalidArgumentError

VOLUME = Path("/data")  # the image has no such directory
BUILT_IN = Path("/opt/swiftlet/artefacts")


def name_artefacts() -> None:
    """Set SWIFTLET_INDEX and SWIFTLET_ENCODER where they are not set."""
    folder = VOLUME if VOLUME.exists() else BUILT_IN
    found = {"SWIFTLET_INDEX": folder / "index"}
    if os.path.lexists(folder / "encoder"):  # else the one that ships
        found["SWIFTLET_ENCODER"] = folder / "encoder"
    for name, path in found.items():
        os.environ[name] = os.environ.get(name) or str(path)


def check_memory() -> None:
    """Refuse a memory limit that is too small for Python and the packages of `swiftlet serve`."""
    try:
        check_bytes(BASE_BYTES, memory_limit(), "for Python and its packages alone")
    except InvalidArgumentError as error:
        sys.stderr.write(f"swiftlet: {error}\n")
        sys.exit(2)


if __name__ == "__main__":
    # The kernel sends the first process of a container only those signals that it handles.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    name_artefacts()
    if sys.argv[1:2] == ["serve"]:
        check_memory()
    sys.argv[0] = "swiftlet"
    from swiftlet.__main__ import main

    main()
