"""The command `acc`, also `python -m acc`."""

import signal

# The import of the commands takes a moment. Until it is done, Ctrl-C ends the process silently; the
# default handler would raise an exception in the middle of an import.
_HAS_DEFAULT_HANDLER = signal.getsignal(signal.SIGINT) is signal.default_int_handler
if _HAS_DEFAULT_HANDLER:
    signal.signal(signal.SIGINT, signal.SIG_DFL)

from acc.cli import main  # noqa: E402 - after the handler is set

if _HAS_DEFAULT_HANDLER:
    signal.signal(signal.SIGINT, signal.default_int_handler)

if __name__ == "__main__":
    main()
