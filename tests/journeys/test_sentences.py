"""Sentences"""

from pathlib import Path

import corridor
import numpy as np
import pytest
import small

import forage
from forage.core.errors import ForageError
from forage.studies.comparison.verdicts import comparison_words
from forage.studies.tuning.tune import tuning_sentences

ROOT = Path(__file__).parents[2]
TRAIN = ("train", "ppo", "CartPole-v1")


def check_refused(capsys, *words):
    code, _, err = small.run_command(capsys, *words)
    assert code == 2
    return err


def test_a_comparison_that_is_open():
    """Compare two agents without a significant difference

    Before (seen again): "ppo is not shown to be better than dqn: ahead by 236.4 [-185.4, 658.2] on average, and a seed
    of it wins with probability 1.00 [1.00, 1.00]; were it the true difference, 7 seeds of each would show it (4
    more)."
    Now: "Inconclusive: ppo's mean return over all seeds is 236.7 higher than dqn's", its interval and seeds, "which is
    not significant.", how often a seed wins, with an interval that covers it, and "Fewer than 5 seeds do not say how
    many would confirm it; train at least 5 of each."
    """
    said = comparison_words("ppo", np.array([500.0, 500.0, 160.0]), "dqn", np.full(3, 150.0))
    assert said.startswith("Inconclusive: ppo's mean return over all seeds is 236.7 higher than dqn's")
    assert "which is not significant. One of ppo's seeds beats one of dqn's with probability 1.00" in said
    assert said.endswith("Fewer than 5 seeds do not say how many would confirm it; train at least 5 of each.")


def test_an_unknown_tracker(capsys):
    """`--extras wandb2`

    Before (seen again): "There is no extra called 'wandb2'; there are tensorboard."
    Now: "Unknown tracker 'wandb2'. Available: tensorboard, wandb, mlflow, trackio, csv, or your own as file.py:Class."
    """
    said = (
        "Unknown tracker 'wandb2'. Available: tensorboard, wandb, mlflow, trackio, csv, or your own as file.py:Class."
    )
    assert check_refused(capsys, *TRAIN, "--track", "wandb2").strip() == said


def test_an_unknown_option_of_an_environment(capsys):
    """`--env.gravty 3`

    Before (seen again): "CartPole-v1 has no option gravty; the nearest are gravity."
    Now: "CartPole-v1 has no option 'gravty'. Did you mean 'gravity'?"
    """
    said = "CartPole-v1 has no option 'gravty'. Did you mean 'gravity'?"
    assert check_refused(capsys, *TRAIN, "--env.gravty", "3").strip() == said


def test_an_unknown_part(capsys):
    """`--rewards rdn`

    Before (seen again): "There is no rewards called 'rdn'"
    Now: "Unknown rewards part 'rdn'. Did you mean 'rnd'?"
    """
    assert (
        check_refused(capsys, *TRAIN, "--rewards", "rdn").strip() == "Unknown rewards part 'rdn'. Did you mean 'rnd'?"
    )


def test_a_score_on_tuning_seeds():
    """Read the result of `forage tune`

    Before (seen again): "on its tuning seeds -80.66, which flatters it: it was chosen there"
    Now: "-80.66 on the tuning seeds (optimistic: those seeds selected it)"
    """
    best = {"settings": {"clip": 0.1}, "value": -80.66}
    found = {"best": best, "trials": 2, "seeds": [5000], "tuned": [-90.0], "default": [-95.0], "cut": {}}
    lines = tuning_sentences(found | {"verdict": "", "trials_per_minute": 1.0})
    assert lines[1].strip() == "-80.66 on the tuning seeds (optimistic: those seeds selected it)"


def test_a_state_that_cannot_be_saved(capsys, tmp_path):
    """Train in an environment with a state that cannot be saved

    Before (seen again): "myenv.py:Corridor cannot be saved exactly: after a stop new episodes begin."
    Now: "Note: corridor:Corridor's state is not checkpointed; on resume, unfinished episodes restart. --env.snapshots
    true saves it if it can be copied, which forage check tries."
    """
    given = {"steps": 16, "seeds": 1, "evaluation_episodes": 1, "evaluation_actions": "greedy", "display": "plain"}
    forage.train("ppo", corridor.Corridor, agent_options=small.PPO, directory=tmp_path / "run", **given)
    said = (
        "Note: corridor:Corridor's state is not checkpointed; on resume, unfinished episodes restart. "
        "--env.snapshots true saves it if it can be copied, which forage check tries."
    )
    assert said in capsys.readouterr().out.splitlines()


def test_an_environment_that_returns_nan(tmp_path):
    """Train in an environment that returns NaN

    Before (seen again): "an environment must return numbers, so mend it or keep its actions in a range where it is
    stable"
    Now: the place, and "fix the environment, or restrict actions to a range where it is stable."
    """
    with pytest.raises(ForageError) as answer:
        forage.train(
            "ppo", corridor.Unstable, agent_options=small.PPO, steps=16, seeds=1, directory=tmp_path / "run",
            display="quiet",
        )  # fmt: skip
    assert "returned NaN as reward at step 1 in environment 0" in str(answer.value)
    assert "fix the environment, or restrict actions to a range where it is stable." in str(answer.value)


def test_what_a_behaviour_is(capsys):
    """`forage show ornstein-uhlenbeck`

    Before (seen again): "Hands the agent noise that walks about zero, each number that it makes actions from by
    itself:"
    Now: "Ornstein-Uhlenbeck noise, one independent process for each number that actions are made from."
    """
    code, out, _ = small.run_command(capsys, "show", "ornstein-uhlenbeck")
    assert code == 0
    assert "Ornstein-Uhlenbeck noise, one independent process for each number that actions are made from." in out


def test_what_exploration_is():
    """Read the page on exploration

    Before (seen again): "What is new can be paid for (rewards), gone for (behaviour), begun from (starts), or believed
    in (agents)"
    Now: "Novelty can be rewarded (rewards), sought (behaviour), used as a reset state (starts), or built into the
    agent as optimism (agents)"
    """
    page = " ".join((ROOT / "docs" / "exploration.md").read_text().split())
    assert (
        "Novelty can be rewarded (rewards), sought (behaviour), used as a reset state (starts), or built into the "
        "agent as optimism (agents)"
    ) in page


def test_how_many_claims_hold():
    """Read the README on claims

    Before (seen again): "Papers' statements are experiments that run: of 49 claims 31 hold here"
    Now: how many are "of papers that run here as experiments", hold, are undecided and fail.
    """
    text = (ROOT / "README.md").read_text()
    assert "of papers that run here as experiments" in text and "hold here" in text and "undecided" in text
