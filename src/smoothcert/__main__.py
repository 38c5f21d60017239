"""`python -m smoothcert`, and the command `smoothcert`."""

import sys


def main() -> None:
    """The entry point. Ctrl-C is answered by the command; here, while it is loaded and made, which takes a moment."""
    try:
        from smoothcert.cli import main as run  # noqa: PLC0415

        run()
    except KeyboardInterrupt:
        print("\nsmoothcert: interrupted; run the same command again", file=sys.stderr)
        sys.exit(130)


if __name__ == "__main__":
    main()
