"""Ends with status 0 if the service in this container is ready, else with 1 and the reason."""

import http.client
import os
import sys

ADDRESSES_OF_ALL = {"": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "::1"}
TIMEOUT_SECONDS = 5


def main() -> None:
    host = os.environ.get("SWIFTLET_HOST", "").split(",")[0].strip()
    port = int(os.environ.get("SWIFTLET_PORT") or 8000)
    connection = http.client.HTTPConnection(
        ADDRESSES_OF_ALL.get(host, host), port, timeout=TIMEOUT_SECONDS
    )
    try:
        connection.request("GET", "/health/ready")
        answer = connection.getresponse()
    except OSError as error:
        sys.exit(f"no answer: {error}")
    if answer.status != http.client.OK:
        sys.exit(f"{answer.status}: {answer.read().decode()}")


if __name__ == "__main__":
    main()
