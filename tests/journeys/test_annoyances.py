"""Annoyances"""

from types import SimpleNamespace

import corridor
import pytest
import small

import forage
from forage.config.resolve import resolve
from forage.core.errors import ForageError
from forage.studies.claims import running

TRAIN = ("train", "ppo", "CartPole-v1")


def answer(capsys, *words):
    """Return a command's output, or with exit code 2 its one sentence."""
    code, out, err = small.run_command(capsys, *words)
    assert code == (2 if err else 0) and err.count("\n") == bool(err)
    return err or out


def test_every_command_has_help(capsys):
    """`resume --help`, and that of `watch`, `compare`, `report`, `list`, `show`

    Before (seen again): the front page.
    Now: help of its own, with examples.
    """
    for command in ("resume", "watch", "compare", "report", "list", "show"):
        out = answer(capsys, command, "--help")
        assert out.startswith(f"forage {command} ") and "\nExamples\n" in out


def test_help_has_the_options_of_the_agent(capsys):
    """`forage train ppo --help`

    Before (seen again): no option of PPO.
    Now: all of them, such as `--gae-lambda`, with default and range.
    """
    assert "--gae-lambda 0.95 decay" in " ".join(answer(capsys, "train", "ppo", "--help").split())


def test_a_part_is_shown_whole(capsys, claims):
    """`forage show rnd`

    Before (seen again): one sentence; 29 of 47 parts lose formula and paper.
    Now: formula, paper, options, example and claim.
    """
    out = answer(capsys, "show", "rnd")
    assert all(word in out for word in ("mean_k", "arXiv 1810.12894", "--rewards.weight", "\nexample ", "forage claim"))


def test_names_of_other_libraries_are_answered(capsys):
    """`--lr`, `--gamma`, `--n-steps`, `--ent-coef`

    Before (seen again): no such option, without a hint.
    Now: "Did you mean '--learning-rate'?", and so for the others.
    """
    theirs = {
        "lr": "learning-rate",
        "gamma": "discount",
        "n_steps": "rollout-length",
        "ent_coef": "entropy-coefficient",
    }
    assert answer(capsys, *TRAIN, "--lr", "1").endswith("Did you mean '--learning-rate'?\n")
    for name, ours in theirs.items():
        assert answer(capsys, *TRAIN, f"--{name}", "1").endswith(f"Did you mean '--{ours}'?\n")


def test_a_short_option_is_answered(capsys):
    """`-s 1000`

    Before (seen again): "forage train takes an environment, or an agent and an environment", which does not mention
    `-s`.
    Now: "Unknown option '-s'. Did you mean '--steps'" or another.
    """
    assert answer(capsys, *TRAIN, "-s", "1000").startswith("Unknown option '-s'. Did you mean '--steps'")


def test_an_unknown_activation_leaves_nothing_behind(capsys, tmp_path):
    """`--activation swish`

    Before: fails after the directory of the run was made, and leaves it.
    Now: any activation of `jax.nn`; of one that is none "Did you mean 'swish'", and no directory.
    """
    assert resolve("ppo", "CartPole-v1", activation="swish").agent.activation == "swish"
    said = answer(capsys, *TRAIN, "--activation", "swosh", "--directory", tmp_path / "run")
    assert "Did you mean 'swish'" in said and not (tmp_path / "run").exists()


def test_the_nearest_claim_is_the_right_one(capsys, claims):
    """`forage claim gae`

    Before (seen again): "did you mean gsde?"
    Now: "Did you mean 'gae-lambda'?"
    """
    assert answer(capsys, "claim", "gae") == "Unknown claim 'gae'. Did you mean 'gae-lambda'?\n"


def test_an_unknown_name_may_be_a_part(capsys):
    """`forage show nothing`

    Before (seen again): "There is no environment nothing"
    Now: "Unknown part or environment 'nothing'."
    """
    assert answer(capsys, "show", "nothing").startswith("Unknown part or environment 'nothing'.")


def test_steps_in_words_in_python():
    """`steps="10k"` in Python

    Before (seen again): a raw `TypeError`.
    Now: 10,000 steps.
    """
    assert resolve("ppo", "CartPole-v1", steps="10k").steps == 10_000


def test_options_have_hyphens(capsys):
    """`--env.cart_mass` next to `--rewards.final-weight`

    Before (seen again): underscores in one, hyphens in the other.
    Now: hyphens are shown everywhere, and both are taken.
    """
    assert "--env.cart-mass" in answer(capsys, "show", "CartPole-v1")
    for spelled in ("cart-mass", "cart_mass"):
        assert answer(capsys, *TRAIN, f"--env.{spelled}", "-1") == "cart_mass of CartPole-v1 is above 0, not -1.\n"


def test_a_list_fits_a_screen(capsys):
    """`forage list`

    Before (seen again): 150 lines and more, and sentences cut in half.
    Now: names on one screen; with `--all` whole sentences.
    """
    assert len(answer(capsys, "list").splitlines()) <= 40
    whole = "Proximal policy optimisation (Schulman et al., 2017, arXiv 1707.06347), also with a GRU and action masks."
    assert whole in " ".join(answer(capsys, "list", "agents", "--all").split())


@pytest.mark.thorough
def test_a_grid_is_drawn(run, capsys):
    """`forage evaluate RUN --grid length=0.5,1`

    Before (seen again): draws nothing.
    Now: `robustness.png`, whose place is printed.
    """
    out = answer(capsys, "evaluate", run.directory, "--grid", "length=0.5,1", "--episodes", "2")
    assert f"picture {run.directory / 'robustness.png'}" in out and (run.directory / "robustness.png").exists()


def test_a_finished_run_says_that_it_is(run, capsys):
    """Resume a run that is finished

    Before (seen again): evaluated again without a word.
    Now: "This run had finished all of its 160 steps; nothing is left to do."
    """
    answer(capsys, "evaluate", run.directory, "--episodes", str(run.evaluation["episodes"] + 1))
    kept = {name: (run.directory / name).read_text() for name in ("time.json", "evaluation.json")}
    out = answer(capsys, "resume", run.directory, "--plain")
    assert "This run had finished all of its 160 steps; nothing is left to do." in out
    assert {name: (run.directory / name).read_text() for name in kept} == kept


def test_a_reset_without_a_seed_is_named():
    """An environment with a `reset()` that takes no seed

    Before: "has no option seed; the nearest are flatten"
    Now: "has a reset that takes no seed"
    """
    with pytest.raises(ForageError, match="has a reset that takes no seed"):
        play(corridor.Seedless)


def test_a_step_of_four_values_is_named():
    """An environment with the old step of four values

    Before: answered misleadingly.
    Now: "returned 4 values from step at step 1 in environment 0"
    """
    with pytest.raises(ForageError, match="returned 4 values from step at step 1 in environment 0"):
        play(corridor.FourTuple)


def play(environment):
    host = resolve("ppo", environment, agent_options=small.PPO).environment(1)
    host.reset(0)
    host.step(host.action_space.sample()[None])


def test_each_arm_of_a_claim_is_named(capsys, claims, monkeypatch, tmp_path):
    """`forage claim ppo-epochs`

    Before: the same title for every arm.
    Now: each has its number and name, as in "ppo-epochs, arm 2 of 2".
    """

    def train_agent(claim, label, *_):
        if label == list(claim.arms)[-1]:
            raise ForageError("far enough")
        return SimpleNamespace(rows=[{"seconds": 1.0}])

    monkeypatch.setattr(running, "train_arm", train_agent)
    with pytest.raises(ForageError, match="far enough"):
        forage.claim("ppo-epochs", scale="smoke", directory=tmp_path, display="plain")
    out = capsys.readouterr().out
    assert "ppo-epochs, arm 1 of 2: " in out and "ppo-epochs, arm 2 of 2" in out
