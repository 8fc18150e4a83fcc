"""The entry point of `swiftlet` and `python -m swiftlet`; Ctrl-C may interrupt its imports too."""

import os
import sys

INTERRUPTED = 130  # as in swiftlet.cli.main, which may not be imported yet

_MOST_DIGITS = 4


def main() -> None:
    """Run the command line."""
    if len(os.environ.get("COLUMNS", "")) > _MOST_DIGITS:
        del os.environ["COLUMNS"]  # rich would pad lines to such a width
    try:
        from swiftlet.cli.main import app

        app()
    except KeyboardInterrupt:
        sys.stderr.write("swiftlet: interrupted\n")
        sys.exit(INTERRUPTED)


if __name__ == "__main__":
    main()
