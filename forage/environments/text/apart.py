"""The process that answers questions: reads them from its standard input and writes answers to its standard output."""

from __future__ import annotations

import os
import pickle
import sys

from forage.environments.text.process import LENGTH, receive


def main() -> None:
    """Load the function from the first message, then call it with questions until the other side ends."""
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
    except Exception as error:
        return answer(f"{type(error).__name__}: {error}")
    answer("")
    while packed := receive(source):
        # An answer leaves the process as a plain tuple, so that no class of a person's has to be loaded to read it.
        answer(tuple(function(*pickle.loads(packed))))
    return None


if __name__ == "__main__":
    main()
