"""Non-finite numbers are reported by name, and never overwrite finite ones."""

from types import SimpleNamespace

import jax.numpy as jnp
import numpy as np
import pytest
import small

import forage
from forage.core import checkpoint
from forage.core.types import Experience, ForageError
from forage.environments.classic.cartpole import CartPole
from forage.loop import soundness
from forage.runs.faults import Finite
from forage.runs.run import Run

small.keep_compiled()


class Sick(CartPole):
    """Returns infinity as reward in the fifth step of every episode."""

    def step(self, state, action, key):
        state, step = super().step(state, action, key)
        return state, step._replace(reward=jnp.where(state.time == 5, jnp.inf, 1.0))


def experience(**more):
    zeros = np.zeros((4, 2), np.float32)
    seen = {"speed": np.zeros((4, 2, 3), np.float32)}
    fields = {"observation": seen, "action": zeros, "reward": zeros, "next_observation": seen}
    rest = {"terminated": zeros > 0, "truncated": zeros > 0, "source": zeros.astype(int), "policy_info": ()}
    return Experience(**(fields | rest | more))


def test_the_first_number_of_a_rollout_that_is_not_finite_is_named():
    reward, speed, action = (np.zeros(shape, np.float32) for shape in ((4, 2), (4, 2, 3), (4, 2)))
    assert soundness.search_rollout(experience(), 1) is None
    reward[2, 1], speed[2, 0, 2] = np.inf, np.nan
    found = soundness.search_rollout(experience(reward=reward, next_observation={"speed": speed}), 1)
    assert found == soundness.FirstBadStep(soundness.Bad("reward", "infinity"), 2, 1, False)
    found = soundness.search_rollout(experience(next_observation={"speed": speed}), 1)
    assert found.bad == soundness.Bad("observation['speed'][2]", "NaN") and (found.time, found.env) == (2, 0)
    action[2, 0] = np.nan  # who acts comes before who answers
    assert soundness.search_rollout(experience(reward=reward, action=action), 1).ours


@pytest.mark.parametrize(
    ("name", "shape", "index", "member", "entry"),
    [
        (".learner.agent.network.weight", (2, 3), (1, 2), 1, "network.weight[2]"),
        ("[1].learner.agent.optimiser[0].mu", (3,), (2,), 1, "optimiser[0].mu[2]"),
        (".learner.rewards.norm", (2,), (0,), 0, "norm"),
        (".learner.memory.ring.observation['speed']", (2, 4, 1), (1, 3, 0), 1, "observation['speed'][3, 0]"),
        ("[0].pending.reward", (4, 1), (3, 0), 0, "reward[3, 0]"),
        (".pool.starts.observation", (2, 4), (1, 1), 1, "observation[1]"),
    ],
)
def test_a_leaf_that_is_not_finite_is_not_saved(tmp_path, name, shape, index, member, entry):
    array = np.zeros(shape, np.float32)
    soundness.check_leaf(name, array)
    array[index] = np.nan
    with pytest.raises(soundness.NotFinite) as found:
        soundness.check_leaf(name, array)
    assert (found.value.member, found.value.bad) == (member, soundness.Bad(entry, "NaN"))


def test_what_may_be_infinite_is_saved():
    for name in (
        ".learner.behaviour.score",
        ".starts.score",
        ".actors.at.env_state.observation",
        ".learner.memory.policy_info",
    ):
        soundness.check_leaf(name, np.array([-np.inf], np.float32))
    with pytest.raises(soundness.NotFinite):
        soundness.check_leaf(".learner.behaviour.score", np.array([np.nan], np.float32))


def test_what_a_look_refuses_leaves_the_file_as_it_was(tmp_path):
    path = tmp_path / "1.npz"
    checkpoint.save_tree(path, {"a": jnp.zeros(2)}, {"steps": 1})
    before = path.read_bytes()

    def refuse(name, array):
        raise soundness.NotFinite("agent", soundness.Bad(name, "NaN"), 0)

    with pytest.raises(soundness.NotFinite):
        checkpoint.save_tree(path, {"a": jnp.ones(2)}, {"steps": 2}, look=refuse)
    assert path.read_bytes() == before and [p.name for p in tmp_path.iterdir()] == ["1.npz"]


def test_the_device_names_entry_step_environment_and_seed(tmp_path):
    with pytest.raises(ForageError, match=r"Sick returned infinity as reward at step 10 in environment 0 with seed 3"):
        small.train(tmp_path / "run", environment=Sick())
    run = Run(tmp_path / "run")
    saved = checkpoint.arrays(run.directory / "agent.npz")
    assert all(soundness.first_bad(array) is None for array in saved.values())
    assert run.checkpoints[-1].stem == "000000000000"
    forage.load(run.directory)


def test_evaluation_of_what_is_not_finite_is_no_score():
    with pytest.raises(ForageError, match="infinity as reward in evaluation, in episode 1 with seed 7"):
        soundness.check_returns("Sick", np.array([[1.0, 2.0], [3.0, np.inf]]), [3, 7])
    soundness.check_returns("Well", np.zeros((2, 2)), [3, 7])
    assert soundness.first_bad(np.array([1, 2])) is None


def test_rewards_that_are_no_numbers_are_named_beside_what_was_learned():
    def hint(name, reward):
        found = Finite(SimpleNamespace(names={"rewards": name}), None, None, None)
        return found.reward_hint(SimpleNamespace(metrics={"reward": np.float32(reward)}), 1)

    assert hint("Mine", [0, np.nan]) == " The rewards of Mine were nan too; look at them first."
    assert hint("Mine", [np.nan, 1]) == hint("environment", [0, np.nan]) == ""
