"""What holds for all tests."""

import signal

# Started in the background, all that we start would not hear Ctrl-C, and some tests press it.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
