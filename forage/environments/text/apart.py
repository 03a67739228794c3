"""The process of a verifier: reads questions from its standard input and writes verdicts to its standard output."""

from __future__ import annotations

import os
import pickle
import sys

from forage.environments.text.guard import LENGTH, receive, verify_in_place


def main() -> None:
    """Load the family from the first message, then verify texts until the other side ends."""
    # What a verifier prints must not stand between the verdicts.
    out = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    source = sys.stdin.buffer

    def answer(found: object) -> None:
        packed = pickle.dumps(found)
        out.write(LENGTH.pack(len(packed)) + packed)
        out.flush()

    try:
        family = pickle.loads(receive(source))
    except Exception as error:
        return answer(f"{type(error).__name__}: {error}")
    answer("")
    while packed := receive(source):
        # A verdict leaves the process as a plain tuple, so that nothing of the verifier's has to be loaded to read it.
        answer(tuple(verify_in_place(family, *pickle.loads(packed))))
    return None


if __name__ == "__main__":
    main()
