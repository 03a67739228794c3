"""Steering by noise: executed actions, the targets of both kinds of critics, and refusals."""

import dataclasses
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from check_helpers import check
from critic_helpers import inputs_of
from fine_tuning_helpers import SPEC, batch, constant_critics, linear_critics
from small import at_once, compute

from forage.core.frozen import FrozenPolicy
from forage.core.ports import ActInputs, Agent
from forage.core.types import Clock, ForageError
from forage_papers.agents.actor_critic.offline_to_online.dsrl import DSRL


class Mirror(Agent):
    """Makes an action of three numbers of noise: the first, and minus the sum of the others."""

    on_policy: ClassVar[bool] = False
    num_envs: int = 1
    rollout_length: int = 1
    numbers: tuple[int, ...] | None = (3,)

    def check(self, spec):
        pass

    def init(self, key, spec):
        return {"scale": jnp.ones(())}

    def noise(self, spec):
        return self.numbers

    def act(self, state, inputs):
        noise = jnp.zeros(3) if inputs.noise is None else inputs.noise
        return state["scale"] * jnp.stack([noise[0], -noise[1:].sum()]), inputs.hidden, ()

    def learn(self, state, batch, clock, key):
        raise NotImplementedError


BASE = FrozenPolicy("mirror", agent=Mirror(), weights={"scale": jnp.float32(0.5)})
AGENT = DSRL(base=BASE, hidden_sizes=(), critics=2, critic_norm="none", magnitude=2.0, discount=0.9, learning_rate=0.01)


def test_noise_is_scaled_and_decoded_by_the_base():
    state = at_once(lambda: AGENT.init(jax.random.key(0), SPEC))
    noise = jnp.array([[0.5, 0.25, -1.0]])
    decoded = compute(lambda s: AGENT.decode_noise(s, jnp.zeros((1, 3)), noise), state)
    np.testing.assert_allclose(decoded, [[0.5 * 1.0 / 2, 0.5 * 1.5 / 2]], rtol=1e-6)  # the box is twice the unit box
    action = compute(lambda s: AGENT.act(s, ActInputs((), jnp.ones(3), jax.random.key(1), True))[0], state)
    assert action.shape == (2,) and SPEC.action_space.contains(action.astype(np.float32))


def test_targets_ask_about_actions_and_the_policy_climbs_critics_of_noise():
    state = at_once(lambda: AGENT.init(jax.random.key(0), SPEC))
    # Critics of actions say their second number, critics of noise the first of the noise.
    asked = linear_critics(state.critics, jnp.array([1.0, 1.0]), 4)
    state = state._replace(target_critics=asked, actor=jax.tree.map(jnp.zeros_like, state.actor))
    drawn = np.array([[0.0, 20.0, 0.0], [0.0, -20.0, 20.0]], np.float32)  # tanh: 1, and -1 with 1
    inputs = inputs_of(np.zeros((2, 3)), reward=1.0, next_noise=drawn)
    np.testing.assert_allclose(compute(AGENT.target, state, inputs), [1 - 0.9 * 0.5, 1.0], atol=1e-5)
    cold = dataclasses.replace(AGENT, initial_temperature=1e-9)
    state = state._replace(
        noise_critics=linear_critics(state.noise_critics, jnp.array([3.0, 4.0]), 3),
        critics=constant_critics(state.critics, [100.0, 100.0]),
        log_temperature=jnp.float32(-20.0),
    )
    inputs = inputs_of(jnp.zeros((1, 3)), noise=jnp.array([[0.5, 0.0, 0.0]]))
    loss = compute(lambda s: cold.actor_loss(s.actor, s, inputs)[0], state)
    np.testing.assert_allclose(loss, -3 * np.tanh(0.5), rtol=1e-4)


def test_critics_of_noise_learn_what_critics_say():
    agent = dataclasses.replace(AGENT, distil_interval=1)

    def run_learn():
        state = agent.init(jax.random.key(0), SPEC)
        state = state._replace(critics=linear_critics(state.critics, jnp.array([1.0, 1.0]), 3))
        now = jax.tree.map(lambda x: x[0], batch(64).experience)
        step = lambda number, s: agent.distil(s, now, jax.random.fold_in(jax.random.key(1), number))  # noqa: E731
        return jax.lax.fori_loop(0, 400, step, state).noise_critics.body.layers[-1].weight

    weight = compute(run_learn)[:, 3:, 0]  # the first number of the action is half of `magnitude` w_0, in a double box
    np.testing.assert_allclose(weight, [[0.5, 0.0, 0.0]] * 2, atol=0.05)


def test_an_update_leaves_the_base_alone():
    agent = dataclasses.replace(AGENT, distil_interval=1)

    def run_learn():
        state = agent.init(jax.random.key(0), SPEC)
        later, metrics, error = agent.learn(state, batch(), Clock(jnp.int32(0), jnp.float32(9)), jax.random.key(1))
        return state, agent.reset_networks(later, batch(), jax.random.key(2), SPEC)[0], metrics, error

    before, after, metrics, error = at_once(run_learn)
    assert float(after.base.weights["scale"]) == 0.5 and error.shape == (4,)
    assert all(np.isfinite(value) for value in metrics.values())
    for name in ("actor", "critics", "noise_critics", "target_critics"):
        pairs = zip(*map(jax.tree.leaves, (getattr(before, name), getattr(after, name))), strict=True)
        assert any((old != new).any() for old, new in pairs), name


def test_what_is_refused():
    with pytest.raises(ForageError, match="name the run of one with --base RUN"):
        check(DSRL(), SPEC)
    deaf = FrozenPolicy("deaf", agent=Mirror(numbers=None), weights={"scale": jnp.ones(())})
    for base in (deaf, lambda observation: jnp.zeros(2)):
        with pytest.raises(ForageError, match="makes them from none"):
            check(DSRL(base=base), SPEC)
    with pytest.raises(ForageError, match="leave bins out"):
        DSRL(bins=5)
