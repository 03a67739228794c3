"""Soft actor-critic for mixed actions: formulas computed again in NumPy, masks, and learning."""

import dataclasses
import itertools
from typing import NamedTuple

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import small
from gymnasium import spaces
from mixed_helpers import FLAT, SIGHT, Aim, spec_with

from forage.agents.actor_critic.base import UpdateInputs
from forage.agents.actor_critic.crossq import CrossQ
from forage.agents.actor_critic.sac import EDGE, SAC
from forage.core import prng
from forage.core.arrays import action_space
from forage.core.ports import ActInputs
from forage.core.ports.checking import check_agent
from forage.core.types import ForageError
from forage.environments.wrappers import FlatActions

small.keep_compiled()
GO = action_space("x", spaces.Tuple((spaces.Discrete(3), spaces.Box(-2, 2, (1,)), spaces.MultiBinary(1))))
AGENT = SAC(hidden_sizes=(4,), initial_temperature=0.5, discount=0.9)


def masked_space(options: int) -> gymnasium.Space:
    return spaces.Dict({"observation": SIGHT, "action_mask": spaces.MultiBinary(options)})


def state_of(agent=AGENT, space=GO, seen=SIGHT):
    spec = spec_with(space, seen)
    state = small.at_once(lambda: agent.init(prng.key(3), spec))
    return dataclasses.replace(state, log_choice_temperature=jnp.log(0.25))


class Rows(NamedTuple):
    """The fields of transitions that targets and losses read."""

    observation: jax.Array
    next_observation: jax.Array
    reward: jax.Array
    terminated: jax.Array
    counts: jax.Array


def test_all_combinations_of_choices_are_asked_with_numbers_of_their_own():
    actor = jax.eval_shape(lambda: AGENT.init(prng.key(3), spec_with(GO))).actor
    assert actor.combinations.tolist() == [list(c) for c in itertools.product(range(3), range(2))]
    numbers = jnp.arange(6.0).reshape(1, 6, 1)
    np.testing.assert_array_equal(
        actor.features(numbers)[3], [0, 1, 0, 0, 1, 3]
    )  # the second of three, the second of two, and its own number
    # one option, none (which stands for both), of three and of two
    found = actor.joint_mask(jnp.array([0, 0, 1, 0, 0], bool))
    np.testing.assert_array_equal(found, [0, 0, 0, 0, 1, 1])


def test_target_loss_and_temperatures_are_those_of_the_formulas():
    state, batch, random = state_of(), 5, np.random.default_rng(0)
    draw = lambda *shape: jnp.asarray(random.normal(size=shape), jnp.float32)  # noqa: E731
    noise, next_noise = draw(batch, 6, 1), draw(batch, 6, 1)
    seen, after, reward = draw(batch, 2), draw(batch, 2), draw(batch)
    ended = jnp.array([0, 1, 0, 0, 1], bool)
    now = Rows(seen, after, reward, ended, jnp.ones(batch, bool))
    inputs = UpdateInputs(now, None, jnp.ones(batch), noise, next_noise)  # type: ignore[arg-type]

    options = np.array([[*np.eye(3)[d], *np.eye(2)[c]] for d, c in itertools.product(range(3), range(2))], np.float32)

    def ask(observation, noise, critics):
        """Return log-probabilities, numbers before the tanh, their deviations, and values."""
        policy = state.actor(observation)
        deviation = jnp.exp(policy.numbers.log_std[..., 0])
        u = policy.numbers.mean[..., 0] + deviation * noise[..., 0]
        rows = [jnp.concatenate([jnp.tile(row, (batch, 1)), jnp.tanh(u[:, [d]])], 1) for d, row in enumerate(options)]
        value = jax.vmap(lambda critic: jnp.stack([critic(observation, action) for action in rows], 1))(critics)
        return policy.choice.log_probabilities, u, deviation, value.min(0)

    def compute():
        asked = [ask(after, next_noise, state.target_critics), ask(seen, noise, state.critics)]
        return (
            asked,
            AGENT.target(state, inputs),
            AGENT.actor_loss(state.actor, state, inputs),
            AGENT.improve(state, inputs),
        )

    asked, target, (loss, report), (moved, _) = small.at_once(compute)

    def value_of(log_choice, u, deviation, values, noise):
        log_choice, u, deviation, values = map(np.asarray, (log_choice, u, deviation, values))
        normal = -0.5 * np.asarray(noise)[..., 0] ** 2 - np.log(deviation * np.sqrt(2 * np.pi))
        density, p = normal - np.log(1 - np.tanh(u) ** 2), np.exp(log_choice)
        total = (p * (values - 0.25 * log_choice - 0.5 * density)).sum(1)
        return total, -(p * log_choice).sum(1), -(p * density).sum(1)

    wanted = np.asarray(reward) + 0.9 * np.where(ended, 0, value_of(*asked[0], next_noise)[0])
    np.testing.assert_allclose(target, wanted, rtol=2e-4)
    own, choices, numbers = value_of(*asked[1], noise)
    np.testing.assert_allclose(loss, -own.mean(), rtol=2e-4)
    np.testing.assert_allclose(report.choices, choices, rtol=2e-4)
    np.testing.assert_allclose(report.numbers, numbers, rtol=2e-4, atol=1e-4)
    # Adam's first step is the learning rate, up where the entropy is below its target and down where it is above.
    above = np.sign([choices.mean() - 0.25 * np.log(6), numbers.mean() + 1])
    steps = [moved.log_choice_temperature - np.log(0.25), moved.log_temperature - np.log(0.5)]
    np.testing.assert_allclose(steps, -3e-4 * above, rtol=1e-2)


@pytest.mark.thorough
def test_probabilities_of_all_mixed_actions_sum_to_one():
    state = state_of()
    grid = np.linspace(-2 * EDGE, 2 * EDGE, 4001, dtype=np.float32)
    total = 0.0
    for first, second in itertools.product(range(3), range(2)):
        rows = np.stack([np.full_like(grid, first), np.full_like(grid, second), grid], 1)
        seen = jnp.tile(jnp.array([0.3, -0.4]), (len(grid), 1))
        density = np.exp(AGENT.log_probability(state, seen, jnp.asarray(rows)))
        total += np.trapezoid(density, grid / 2)  # in the unit box
    assert total == pytest.approx(1, abs=2e-3)


@pytest.mark.thorough
def test_it_acts_in_the_environments_numbers_and_within_masks():
    state = state_of(seen=masked_space(5))
    seen = {"observation": jnp.array([0.3, -0.4]), "action_mask": jnp.array([0, 1, 1, 1, 0], jnp.int8)}
    draw = jax.jit(jax.vmap(lambda key: AGENT.act(state, ActInputs((), seen, key, True))[0]))
    drawn = np.asarray(draw(jax.random.split(jax.random.key(0), 300)))
    assert set(map(tuple, drawn[:, :2])) == {(1, 0), (2, 0)}
    assert (np.abs(drawn[:, 2]) < 2).all() and np.abs(drawn[:, 2]).max() > 1
    best = AGENT.act(state, ActInputs((), seen, jax.random.key(0), False))[0]
    policy = jax.tree.map(lambda x: x[0], state.actor(jax.tree.map(lambda x: x[None], seen)))
    place = int(policy.choice.mode())
    np.testing.assert_allclose(
        best, [*state.actor.combinations[place], 2 * np.tanh(policy.numbers.mean[place, 0])], 1e-5
    )


def test_what_it_cannot_learn_is_one_sentence():
    many = action_space("x", spaces.Dict(go=spaces.MultiDiscrete([17, 16]), push=spaces.Box(0, 1)))
    with pytest.raises(ForageError, match=r"SAC asks its critics of each combination of choices, 256 at most, .* 272"):
        check_agent(SAC(), spec_with(many))
    with pytest.raises(ForageError, match=r"SAC has noise that depends on the state where all actions are numbers"):
        check_agent(SAC(state_dependent_noise=True), spec_with(GO))
    with pytest.raises(ForageError, match=r"CrossQ needs a continuous, bounded action space, .*; try ppo, sac or a2c"):
        check_agent(CrossQ(), spec_with(FLAT))

    class Other(SAC):
        def actor_loss(self, actor, state, inputs):
            return super().actor_loss(actor, state, inputs)

    with pytest.raises(ForageError, match="Other needs a continuous, bounded action space"):
        check_agent(Other(), spec_with(GO))  # its loss may not know mixed actions


@pytest.mark.thorough
@pytest.mark.parametrize("agent", ["ppo", "sac"])
def test_both_halves_are_learned(agent, tmp_path):
    """The best constant side has 0.5 at most, and the best constant power 2/3."""
    import forage

    options = {"hidden_sizes": (32, 32)} | ({} if agent == "ppo" else {"learning_starts": 300, "learning_rate": 1e-3})
    steps = 60_000 if agent == "ppo" else 4_000
    run = forage.train(agent, Aim(), steps=steps, seeds=1, directory=tmp_path / "run", agent_options=options)
    assert run.evaluation["return"][0] > 0.9
    assert isinstance(FlatActions(Aim()).action_space, type(FLAT))
