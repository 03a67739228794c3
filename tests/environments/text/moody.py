"""A family with a verifier that misbehaves at a text's request; its process imports this file."""

import os
import time

from forage.environments.text.families.addition import Addition
from forage.environments.text.problems import Verdict


class Moody(Addition):
    """Verifies as addition does, except for a few words in the text."""

    name = "moody"
    bounded = False

    def verify(self, problem, text):
        if "seven" in text:
            return 7
        if "crash" in text:
            raise ValueError("what is this?")
        if "hang" in text:
            time.sleep(60)
        if "exit" in text:
            os._exit(3)
        if "loud" in text:
            print("noise" * 100)
        if "much" in text:
            return Verdict(True, 1.5)
        return super().verify(problem, text)
