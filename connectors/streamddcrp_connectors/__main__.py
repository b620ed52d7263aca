"""Entry point of the command. Until a run can end in order, Ctrl-C ends it at once."""

import signal


def main() -> None:
    """Run the command ``streamddcrp``."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # no traceback from the middle of an import
    from streamddcrp_connectors.cli import main as command  # noqa: PLC0415

    command()


if __name__ == "__main__":
    main()
