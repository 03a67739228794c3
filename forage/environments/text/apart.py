"""The process that answers questions: reads them from its standard input and writes answers to its standard output."""

from __future__ import annotations

import fcntl
import os
import pickle
import select
import signal
import sys
import threading

from forage.core.errors import ForageError
from forage.environments.text.process import LENGTH, receive


def end_with_parent(pipe: int) -> None:
    """End this process when the other end of a pipe closes, which is the case when the parent process ends."""
    if sys.platform == "linux":
        # The kernel ends it, also within a C function that never returns.
        signal.signal(signal.SIGIO, signal.SIG_DFL)
        fcntl.fcntl(pipe, fcntl.F_SETOWN, os.getpid())
        fcntl.fcntl(pipe, fcntl.F_SETFL, fcntl.fcntl(pipe, fcntl.F_GETFL) | os.O_ASYNC)
        if select.select([pipe], [], [], 0)[0]:
            os._exit(1)
        return

    def wait() -> None:
        os.read(pipe, 1)
        os._exit(1)

    threading.Thread(target=wait, daemon=True).start()


def main() -> None:
    """Load the function from the first message, then call it with questions until the other side ends."""
    end_with_parent(int(sys.argv[1]))
    # What a person's code prints must not stand between the answers.
    out = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    source = sys.stdin.buffer

    def answer(found: object) -> None:
        packed = pickle.dumps(found)
        out.write(LENGTH.pack(len(packed)) + packed)
        out.flush()

    try:
        function = pickle.loads(receive(source))
    except ForageError as error:
        return answer((str(error), True))
    except Exception as error:
        return answer((f"{type(error).__name__}: {error}", False))
    answer(("", True))
    while packed := receive(source):
        # An answer leaves the process as a plain tuple, so that no class of a person's has to be loaded to read it.
        answer(tuple(function(*pickle.loads(packed))))
    return None


if __name__ == "__main__":
    main()
