"""PPO with imitation: the loss by hand, the effect of its steps on the policy, stop and resume, and refusals."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from check_helpers import check
from gymnasium import spaces
from small import compute, differing, resume_run

from forage.agents.policy_gradient.ppo import PPO
from forage.config.resolve import resolve
from forage.core.types import Batch, Clock, Experience, ForageError, Spec
from forage.data import files
from forage.data.demonstrations import Demonstrations
from forage.data.logged import Transitions
from forage_papers.agents.policy_gradient.ppo_imitation import PPOImitation

SPEC = Spec("Choice", spaces.Box(-1.0, 1.0, (3,), np.float32), spaces.Discrete(3))
SIZES = {"num_envs": 2, "rollout_length": 4, "minibatches": 1, "epochs": 1, "hidden_sizes": (4,)}


def rows(*shape, action):
    """Return transitions without rewards and with one action in all of them."""
    no, seen = np.zeros(shape, bool), np.ones((*shape, 3), np.float32)
    done = np.full(shape, action, np.int32)
    found = Experience(seen, done, np.zeros(shape, np.float32), seen, no, no, np.zeros(shape, np.int32), ())
    return jax.tree.map(jnp.asarray, found)


def test_demonstrations_are_imitated_beside_what_ppo_learns():
    shown = Demonstrations("demos.npz", "", rows(8, action=2))
    agent = PPOImitation(**SIZES, demonstrations=shown, imitation_updates=5, imitation_rate=0.05, imitation_rows=4)
    batch = Batch(rows(4, 2, action=0), jnp.ones(2), jnp.arange(2))
    clock = Clock(jnp.int32(8), jnp.float32(100))

    def run_learn():
        before, seen = agent.init(jax.random.key(0), SPEC), jnp.ones(3)
        own = PPO(**SIZES).learn(PPO(**SIZES).init(jax.random.key(0), SPEC), batch, clock, jax.random.key(1))[0]
        after, metrics, _ = agent.learn(before, batch, clock, jax.random.key(1))
        says = lambda state: agent.probabilities(state, seen, True)  # noqa: E731
        return (
            says(before),
            says(own),
            says(after),
            metrics["imitation_loss"],
            agent.imitation_loss(own.network, None, shown.data),
        )

    first, own, after, mean, loss = compute(run_learn)
    np.testing.assert_allclose(loss, -np.log(own[2]), rtol=1e-4)
    assert abs(own[2] - first[2]) < 0.05 < after[2] - own[2]
    assert -np.log(after[2]) < mean < loss


@pytest.mark.thorough
@pytest.mark.parametrize("environment", ["CartPole-v1", "gymnasium:CartPole-v1"])
def test_resumed_is_as_if_never_stopped(environment, tmp_path):
    one = resolve("ppo", "CartPole-v1", seeds=1).config()["spec"]
    seen, no = np.random.default_rng(0).normal(size=(41, 4)).astype(np.float32), np.zeros(40, bool)
    shown = Transitions(seen[:-1], np.arange(40) % 2, np.ones(40, np.float32), seen[1:], no, np.arange(40) == 39)
    files.write_data(tmp_path / "demos.npz", shown, {"spec": one})
    options = SIZES | {"demonstrations": str(tmp_path / "demos.npz"), "imitation_rows": 4}
    setup = resolve("ppo-imitation", environment, steps=160, seeds=[3, 7], agent_options=options)
    again, runner, report = resume_run(setup, tmp_path, 5)
    assert (np.asarray(report.metrics["imitation_loss"]) > 0).all()
    assert differing(runner.state, again.state) == []
    assert not any(40 in x.shape for x in jax.tree.leaves(runner.agent_states()))  # no copy of the data


def test_what_is_refused():
    with pytest.raises(ForageError, match="name a file of them with --demonstrations FILE"):
        check(PPOImitation(**SIZES), SPEC)
    with pytest.raises(ForageError, match="leave gru_size out"):
        check(PPOImitation(**SIZES, gru_size=4, demonstrations="demos.npz"), SPEC)
