"""Docstrings are plain sentences and names are verbs or nouns: the rules by hand, and the package held against them."""

import ast
from itertools import chain
from pathlib import Path

import pytest
import words


@pytest.fixture(scope="module")
def definitions() -> words.Collected:
    return words.collect_all(words.sources())


@pytest.mark.parametrize(
    ("docstring", "kinds"),
    [
        ("Return what a step brought.", ["verb + wh-word", "what or whom", "dialect"]),
        ("Return how many steps an episode has.", ["verb + wh-word"]),
        ("Return in which rows an episode ends.", ["verb + wh-word"]),
        ("How many steps an episode has.", ["verb + wh-word"]),
        ("Return the member whom each one copies.", ["what or whom"]),
        ("Something that goes on over resets.", ["thing", "dialect"]),
        ("Return the network of the one that acts.", ["thing"]),
        ("The loss beside\nits gradient.", ["dialect"]),
        ("Truncate episodes, then restart.\n\nWhat follows is not the summary.", []),
        ("Return whether a space is bounded.", []),
        ("Return the number of `what` and `nothing`.", []),
        ("Raise `ForageError` if the option is unknown.", []),
        ("Return the besides and the somethings of a beholder.", []),
    ],
)
def test_summaries_are_judged_by_their_words(docstring: str, kinds: list[str]) -> None:
    assert [fault.split(" (")[0] for fault in words.docstring_faults(docstring)] == kinds


@pytest.mark.parametrize(
    ("name", "fault"),
    [
        *dict.fromkeys(["joined", "_drawn", "read", "Varied", "unseen", "rewritten", "left_out"], "participle").items(),
        *dict.fromkeys(
            ["upon", "beside", "alike", "ahead", "either", "several", "plainly"], "preposition or adverb"
        ).items(),
        *dict.fromkeys(
            ["read_csv", "split_rows", "set", "put", "cut", "cut_off", "seed", "apply", "embed"], ""
        ).items(),
        *dict.fromkeys(["drawn_actions", "__enter__", "test_joined", "any_of", "_"], "").items(),
    ],
)
def test_names_are_verbs_or_nouns(name: str, fault: str) -> None:
    assert words.name_fault(name) == fault


def test_a_name_that_returns_a_truth_value_may_be_a_participle() -> None:
    text = """
class Space:
    @property
    def bounded(self) -> bool: ...
    def closed(self) -> Bool[Array, "env"]:
        def drawn() -> int: ...
"""
    failures = list(words.name_failures(words.collect_source("forage/spaces.py", text)[1]))
    assert [(failure.owner, failure.kind) for failure in failures] == [("Space.closed.drawn", "participle")]


def test_a_public_name_has_at_most_three_modules() -> None:
    port = words.collect_source("forage/core/ports.py", "class Agent:\n    def act(self): ...")[1]
    heir = "class {0}(Agent):\n    def act(self): ...\n    def _fill(self): ...\ndef fill(): ..."
    modules = [words.collect_source(f"forage/{name}.py", heir.format(name))[1] for name in "abcd"]
    assert not words.repeated_names([*port, *chain(*modules[:3])])
    assert [one.owner for one in words.repeated_names([*port, *chain(*modules)])["fill"]] == ["fill"] * 4


def test_docstrings_and_definitions_are_found_wherever_they_stand() -> None:
    text = '''"""Module."""
if True:
    class Box:
        """Class."""
        size: int = 3
        """Attribute."""
        def volume(self):
            """Method."""
            with open("x") as file:
                def inner(): """Nested."""
            value = 3
            """Not a docstring."""
'''
    docstrings, names = words.collect_source("x.py", text)
    assert [(one.line, one.owner, one.text) for one in docstrings] == [
        (1, "", "Module."),
        (4, "Box", "Class."),
        (6, "Box.size", "Attribute."),
        (8, "Box.volume", "Method."),
        (10, "Box.volume.inner", "Nested."),
    ]
    assert [(one.owner, one.kind) for one in names] == [
        ("Box", "class"),
        ("Box.volume", "method"),
        ("Box.volume.inner", "nested"),
    ]


@pytest.mark.thorough
def test_shortened_sources_have_the_same_docstrings_and_names() -> None:
    for path, text in words.sources().items():
        assert words.collect_source(path, text) == words.collect_source(path, text, ast.parse), path


def test_docstrings_and_names_keep_the_rules(definitions: words.Collected) -> None:
    docstrings, names = definitions
    failures = [*words.docstring_failures(docstrings), *words.name_failures(names)]
    assert not failures, "\n".join(map(str, failures))
    share = words.wh_share(docstrings)
    assert share <= words.MAX_WH_SHARE, f"{share:.2%} of the summaries have a wh-word in them"


@pytest.mark.skipif(not Path("forage_papers").is_dir(), reason="there are no papers here")
def test_exceptions_are_few_and_still_needed(definitions: words.Collected) -> None:
    docstrings, names = definitions
    assert len(words.DOCSTRING_EXCEPTIONS) <= 10 and len(words.NAME_EXCEPTIONS) <= 10
    failing = {f"{one.path}::{one.owner}" for one in docstrings if words.docstring_faults(one.text)}
    assert set(words.DOCSTRING_EXCEPTIONS) <= failing
    assert set(words.NAME_EXCEPTIONS) <= {one.owner.split(".")[-1] for one in names}
