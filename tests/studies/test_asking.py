"""Problems for a run of text: many times over, held-out ones, in other words; compared with its original model."""

import json

import jax
import numpy as np
import pytest
import small

import forage
from forage.agents.language.grpo import GRPO
from forage.cli.entry import run as command
from forage.core.types import ForageError
from forage.environments.text.wordings import in_other_words
from forage.environments.text.worlds import World
from forage.nn.language.architecture import Architecture
from forage.nn.transformer import Transformer
from forage.runs.run import Run
from forage.studies.asking import LoadedRun, ask, problems_of
from forage.studies.passing import pass_at
from forage.studies.wordings import reword

small.keep_compiled()

SMALL = Architecture(vocabulary=512, width=16, layers=1, heads=2, inner=16, length=256)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A run with a directory as its model, as a command could have made it."""
    folder = tmp_path_factory.mktemp("asked")
    Transformer(jax.random.key(0), SMALL).save(folder / "model")
    # Its answers are all wrong, so that the entropy alone has a gradient.
    agent = GRPO(model=str(folder / "model"), num_envs=8, group_size=4, learning_rate=1e-2, entropy_coefficient=0.1)
    given = {"environment_options": {"response": 12}, "steps": 32, "seeds": 2, "display": "quiet"}
    return forage.train(agent, "text:addition", directory=folder / "run", evaluation_episodes=1, **given).directory


class Judge(World):
    """A world in place of addition's: an answer is right if it has an even number of letters."""

    def __init__(self, world):
        self.world, self.levels, self.turns, self.verified = world, world.levels, world.turns, world.verified

    def begin(self, start):
        return self.world.begin(start)

    def reply(self, written):
        said = self.world.reply(written)
        return said._replace(truth=float(len(written) % 2 == 0), reward=0.0, format=1.0)

    def reference(self):
        return self.world.reference()

    def close(self):
        self.world.close()


@pytest.mark.thorough
def test_each_answer_is_judged_with_its_own_problem(run):
    trained = LoadedRun.from_run(Run(run))
    environment = trained.environment(3)
    environment.examine()
    environment.reset(0)
    environment.worlds = [Judge(world) for world in environment.worlds]
    problems = problems_of(environment, 4, seed=1)
    assert len(problems) == 4 and problems == problems_of(environment, 4, seed=1)
    heard = ask(trained.agent, trained.states[0], environment, problems, 2)  # 8 answers, 3 side by side
    even = [[float(len(text) % 2 == 0) for text in texts] for texts in heard.texts]
    assert heard.truth.tolist() == even and (heard.tokens > 0).all()
    greedy = ask(trained.agent, trained.states[0], environment, problems, 2, greedy=True)
    assert all(one == other for one, other in greedy.texts)


@pytest.mark.thorough
def test_what_was_learned_is_not_what_the_run_began_from(run):
    trained = LoadedRun.from_run(Run(run))
    first, *states = ([np.asarray(x) for x in jax.tree.leaves(one.network)] for one in (trained.first, *trained.states))
    kept = jax.tree.leaves(Transformer.load(run.parent / "model"))
    assert all(np.array_equal(a, b) for a, b in zip(first, kept, strict=True))
    assert len(states) == 2 and all(any((a != b).any() for a, b in zip(first, one, strict=True)) for one in states)


@pytest.mark.thorough
def test_pass_at_k_is_written_beside_the_run(run, capsys):
    command(["evaluate", str(run), "--pass", "4", "--episodes", "3"])
    said = capsys.readouterr().out
    assert "3 problems, 4 answers to each" in said and "first model" in said and "verification" in said
    found = json.loads((run / "pass.json").read_text())
    assert found["k"] == [1, 2, 4] and (run / "pass.png").exists()
    assert np.shape(found["right"]["trained"]) == (2, 3) and len(found["right"]["first"]) == 3


@pytest.mark.thorough
def test_other_wordings_are_asked_for_the_held_out_problems(run):
    found = reword(run, ["tags"], problems=3)
    assert list(found.conditions) == ["trained on", "held out", "tags"]
    assert found.drop("held out") == 0
    assert json.loads((run / "wordings.json").read_text())["tags"]["problems"] == 3


def test_words_are_replaced_once():
    assert in_other_words("Compute 12 + 3.") == "What is 12 + 3."
    assert in_other_words("Use 1 and 2 once each to make 3.") == "Take 1 and 2 once each so that you get 3."
    assert in_other_words("Reused words are Compute-free") == "Reused words are What is-free"


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--pass", "0"], "draws 1 to"),
        (["--pass", "4", "--wordings", "all"], "give one of them"),
        (["--pass", "4", "--opponent", "random"], "no option '--opponent'"),
        (["--pass", "4", "--temperature", "0"], "above 0"),
        (["--wordings", "tag"], "tags"),
    ],
)
@pytest.mark.thorough
def test_bad_questions_are_one_sentence(run, words, says):
    with pytest.raises(ForageError, match=says):
        command(["evaluate", str(run), *words])


def test_runs_without_text_are_refused(tmp_path):
    other = small.train(tmp_path / "run").directory
    with pytest.raises(ForageError, match="writes no text"):
        pass_at(other)
