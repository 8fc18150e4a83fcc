"""`swiftlet`, or `python -m swiftlet`: the commands, whose import can be interrupted too."""

import sys

INTERRUPTED = 2


def main() -> None:
    """Run the command line."""
    try:
        from swiftlet.main import app

        app()
    except KeyboardInterrupt:
        sys.stderr.write("swiftlet: interrupted\n")
        sys.exit(INTERRUPTED)


if __name__ == "__main__":
    main()
