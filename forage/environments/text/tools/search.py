"""Search over a small corpus, by BM25.

Robertson and Zaragoza, The probabilistic relevance framework: BM25 and beyond, 2009. The paper itself could not be
looked up; the formula is the one that Solr's reference guide prints, with its constants `k1 = 1.2` and `b = 0.75`, and
with the inverse document frequency that is never negative, as it adds 1 within the logarithm.
"""

from __future__ import annotations

import dataclasses
import math
import re
import time
from collections import Counter
from collections.abc import Mapping

from forage.core.errors import ForageError
from forage.environments.text.tools.tool import Answer


def text_words(text: str) -> list[str]:
    """Return the words of a text: runs of letters and digits, in small letters."""
    return re.findall(r"[^\W_]+", text.lower())


@dataclasses.dataclass(frozen=True)
class Search:
    """Finds the documents of a corpus that fit some words best.

    A document's score is the sum over the words of the query of

        idf(w) * f * (k1 + 1) / (f + k1 * (1 - b + b * length / average))

    where f is how often w stands in it, length how many words it has, average the mean of that, and
    idf(w) = log(1 + (N - n + 0.5) / (n + 0.5)) for a word in n of N documents. Equal scores keep the corpus's order.
    """

    documents: Mapping[str, str]  # by title
    results: int = 3  # documents in an answer
    shown: int = 300  # characters of each
    k1: float = 1.2  # how soon more of a word counts no more
    b: float = 0.75  # how much a long document's words count less; from 0 to 1
    longest: int = 500  # characters of a query

    name: str = "search"
    description: str = "finds texts by words, the best first."

    def __post_init__(self) -> None:
        """Count the words, once."""
        if not self.documents:
            raise ForageError("A search needs at least one document.")
        if not 0 <= self.b <= 1 or not self.k1 >= 0 or min(self.results, self.shown, self.longest) < 1:
            raise ForageError("A search has k1 of at least 0, b from 0 to 1, and shows at least one result.")
        counts = [Counter(text_words(f"{title} {text}")) for title, text in self.documents.items()]
        frequency = Counter(word for count in counts for word in count)
        lengths = [sum(count.values()) for count in counts]
        if not any(lengths):
            raise ForageError("A search needs documents with words.")
        object.__setattr__(self, "counts", counts)
        object.__setattr__(self, "frequency", frequency)
        object.__setattr__(self, "lengths", lengths)

    counts: list[Counter[str]] = dataclasses.field(init=False, repr=False, compare=False)
    frequency: Counter[str] = dataclasses.field(init=False, repr=False, compare=False)
    lengths: list[int] = dataclasses.field(init=False, repr=False, compare=False)

    def scores(self, query: str) -> list[float]:
        """Return each document's score for a query."""
        number = len(self.counts)
        average = sum(self.lengths) / number
        scores = []
        for count, length in zip(self.counts, self.lengths, strict=True):
            score = 0.0
            for word in text_words(query):
                times, holders = count[word], self.frequency[word]
                idf = math.log(1 + (number - holders + 0.5) / (holders + 0.5))
                if times:
                    score += idf * times * (self.k1 + 1) / (times + self.k1 * (1 - self.b + self.b * length / average))
            scores.append(score)
        return scores

    def call(self, text: str) -> Answer:
        """Return the best documents for a query, or that there is none."""
        start = time.perf_counter()
        said, error = self.find(text)
        return Answer(said, error, time.perf_counter() - start)

    def find(self, query: str) -> tuple[str, bool]:
        """Return the answer to a query, and whether it is a complaint."""
        if len(query) > self.longest:
            return f"A search has at most {self.longest} characters, and this one {len(query)}.", True
        if not text_words(query):
            return "A search needs at least one word.", True
        scores = self.scores(query)
        best = sorted((i for i, score in enumerate(scores) if score > 0), key=lambda i: -scores[i])[: self.results]
        titles = list(self.documents)
        lines = []
        for place, index in enumerate(best, 1):
            text = " ".join(self.documents[titles[index]].split())
            cut = text if len(text) <= self.shown else text[: self.shown].rstrip() + " ..."
            lines.append(f"{place}. {titles[index]}: {cut}")
        return "\n".join(lines) or "No document has any of these words.", False
