"""Learn the pairs of the tokenizer `forage` from the problems that its base model is made of.

python docs/make/tokenizer.py
"""

from __future__ import annotations

import json

from forage.core.text.named import MARKERS, PAIRS
from forage.core.text.own import BytePairs
from forage.environments.text import FAMILIES
from forage.environments.text.opening import family
from forage.environments.text.sets import problem_at

SIZE = 512
EACH = 300  # problems of each family

if __name__ == "__main__":
    texts = []
    for name in FAMILIES:
        made = family(name)
        for index in range(EACH):
            problem = problem_at(made, index % min(len(made.levels), 4), 1, index)
            texts.append(f"{problem.prompt}\n{made.reason(problem)}")
    PAIRS.write_text(json.dumps(BytePairs.learn(texts, SIZE, MARKERS).pairs) + "\n")
