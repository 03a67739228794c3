"""Problems of a person's own, by the name of their class."""

import pickle

import pytest

from forage.config.environment import resolve_environment
from forage.core.errors import ForageError
from forage.environments.text.opening import family

SOURCE = '''
from forage.environments.text.problems import Family, Problem, Verdict

class Twice(Family):
    """Double a number."""
    name, levels, measure, bounded = "twice", ("one digit", "two digits"), "digits", True
    def make(self, generator, difficulty):
        n = int(generator.integers(10 ** (difficulty + 1)))
        return Problem(f"Double {n}.", str(2 * n), {"n": n})
    def size(self, problem):
        return 1
    def reason(self, problem):
        return "twice"

class NoReason(Twice):
    from abc import abstractmethod
    @abstractmethod
    def reason(self, problem): ...
class NoLevels(Twice):
    levels = ()
class OneText(Twice):
    levels = "easy"
class Words(Twice):
    def make(self, generator, difficulty): return Problem("Say a.", "a", {})
class Numbers(Twice):
    def make(self, generator, difficulty): return Problem("Say 1.", 1, {})
class Tuple(Twice):
    def make(self, generator, difficulty): return ("Say 1.", "1")
class Fails(Twice):
    def make(self, generator, difficulty): return {0: super().make(generator, 0)}[difficulty]
class Half(Twice):
    def verify(self, problem, text): return 1.0
class Size(Twice):
    def size(self, problem): return "much"
class Other: pass
'''


@pytest.fixture
def mine(tmp_path):
    (tmp_path / "mine.py").write_text(SOURCE)
    return f"{tmp_path}/mine.py"


def test_a_family_of_ones_own_is_played_and_travels_by_its_name(mine):
    for id in (f"{mine}:Twice", f"text:{mine}:Twice"):
        name, build, config = resolve_environment(id, {"level": 1})
        environment = build(2)
        environment.reset(0)
        assert (name, config["id"]) == ("mine.py:Twice", f"{mine}:Twice")
        assert environment.expert_episode().reward == 1 and "Double" in str(environment.expert_episode())
        environment.close()
    assert type(pickle.loads(pickle.dumps(family(f"{mine}:Twice")))).__name__ == "Twice"


@pytest.mark.parametrize(
    ("cls", "said"),
    [
        ("NoReason", "has no reason; a family has levels, measure, make, size and reason"),
        ("NoLevels", "has no levels; a family has name, levels"),
        ("OneText", r"has as levels a text; they are a tuple, \('easy',\)"),
        ("Words", "calls its own solution wrong at level 0: .* need a read"),
        ("Numbers", "made prompt 'Say 1.' and answer 1 at level 0; make returns Problem"),
        ("Tuple", r"made \('Say 1.', '1'\) at level 0; make returns Problem"),
        ("Fails", "failed in make at level 1 with KeyError: 1; mend it there"),
        ("Half", "judges a text by 1.0; verify returns Verdict"),
        ("Size", "has 'much' as size of a problem at level 0; it is a number"),
        ("Other", "is not an environment; a subclass of .* and for text .*Family"),
    ],
)
def test_a_broken_promise_is_said_in_one_sentence(mine, cls, said):
    with pytest.raises(ForageError, match=said):
        resolve_environment(f"{mine}:{cls}", {})[1](1)
