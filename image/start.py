"""What a container runs: `swiftlet`, told where this image has its index and its encoder.

Where a volume is mounted at /data, they come from there and from nowhere else: an empty volume is
an error that shows, not a demo that answers. Without one they are those that the image was built
with. SWIFTLET_INDEX and SWIFTLET_ENCODER come before both.
"""

import os
import signal
import sys
from pathlib import Path

from retrieval.errors import InvalidArgumentError
from service.memory_limit import BASE_BYTES, check_bytes, memory_limit

VOLUME = Path("/data")  # the image itself has no such directory
BUILT_IN = Path("/opt/swiftlet/artefacts")


def name_artefacts() -> None:
    """Set what is not set of SWIFTLET_INDEX and SWIFTLET_ENCODER."""
    folder = VOLUME if VOLUME.exists() else BUILT_IN
    found = {"SWIFTLET_INDEX": folder / "index"}
    if os.path.lexists(folder / "encoder"):  # else the one that ships
        found["SWIFTLET_ENCODER"] = folder / "encoder"
    for name, path in found.items():
        os.environ[name] = os.environ.get(name) or str(path)


def check_memory() -> None:
    """Refuse a memory limit under which not even the packages of `swiftlet serve` can be read."""
    try:
        check_bytes(BASE_BYTES, memory_limit(), "for Python and its packages alone")
    except InvalidArgumentError as error:
        sys.stderr.write(f"swiftlet: {error}\n")
        sys.exit(2)


if __name__ == "__main__":
    # The first process of a container is ended by no signal that it does not handle itself.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    name_artefacts()
    if sys.argv[1:2] == ["serve"]:
        check_memory()
    sys.argv[0] = "swiftlet"
    from swiftlet.__main__ import main

    main()
