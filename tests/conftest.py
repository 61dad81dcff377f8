"""Settings of all tests."""

import signal

# A test run in the background ignores SIGINT, and processes that tests start would inherit that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
