"""The entry point of `swiftlet` and `python -m swiftlet`; Ctrl-C may interrupt its imports too."""

import sys

INTERRUPTED = 130  # as in swiftlet.cli.main, which may not be imported yet


def main() -> None:
    """Run the command line."""
    try:
        from swiftlet.cli.main import app

        app()
    except KeyboardInterrupt:
        sys.stderr.write("swiftlet: interrupted\n")
        sys.exit(INTERRUPTED)


if __name__ == "__main__":
    main()
