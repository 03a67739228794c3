"""Corrections of a frozen policy: executed actions, inputs of critics, and the contents of a run."""

import dataclasses
import itertools

import equinox
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import small
from check_helpers import check
from critic_helpers import inputs_of
from fine_tuning_helpers import SPEC, batch, linear_critics
from small import at_once, compute

from forage.agents.actor_critic.base import CriticKeys
from forage.config.resolve import from_config, resolve
from forage.config.saved import load_policy
from forage.core.ports import ActInputs
from forage.core.types import Clock, ForageError
from forage_papers.agents.actor_critic.offline_to_online.residual import ResidualSAC, ResidualTD3

CLOCK = Clock(jnp.int32(0), jnp.float32(100))
TINY = {"hidden_sizes": (), "critics": 2, "target_subset": 0, "layer_norm": False, "learning_rate": 1e-2}
BOX = np.array([1.9, -1.0], np.float32)  # what the base does: in the unit box 0.95 and -0.5


def base(observation):
    return jnp.asarray(BOX)


@pytest.mark.parametrize("kind", [ResidualTD3, ResidualSAC])
def test_the_base_acts_at_first_and_corrections_are_scaled_and_clipped(kind):
    agent = kind(**TINY, base=base, residual_scale=0.2)
    seen = {"base": jnp.array([0.95, -0.5])}
    np.testing.assert_allclose(agent.executed_action(seen, jnp.array([1.0, -0.5])), [1.0, -0.6], rtol=1e-6)

    def first():
        state = agent.init(jax.random.key(0), SPEC)
        return agent.act(state, ActInputs((), jnp.ones(3), jax.random.key(1), False))[0], state

    action, state = at_once(first)
    np.testing.assert_allclose(action, BOX, rtol=1e-6)

    # A critic that says its input number 5, the first of the action, after observation and base (in this order).
    critics = jax.eval_shape(lambda: agent.init(jax.random.key(0), SPEC)).critics
    inputs = critics.body.layers[-1].weight.shape[1]
    assert inputs == 3 + 2 + 2
    slope = linear_critics(state.critics, jnp.array([2.0, 3.0]), 5)
    rows = {"observation": jnp.ones((1, 3)), "base": jnp.array([[0.95, -0.5]])}
    value = compute(agent.policy_value, slope, rows, jnp.array([[-0.5, 0.0]]))
    np.testing.assert_allclose(value, [2.5 * (0.95 - 0.1)], rtol=1e-5)
    least = compute(lambda: agent.next_value(slope, rows, jnp.array([[1.0, 0.0]]), CriticKeys()))
    np.testing.assert_allclose(least, [2.0], rtol=1e-5)  # 0.95 + 0.2 is beyond the box


def test_noise_goes_beyond_the_largest_correction():
    agent = ResidualTD3(**TINY, base=base, residual_scale=0.1, discount=0.5, target_noise=1.0, target_noise_clip=0.5)
    state = at_once(lambda: agent.init(jax.random.key(0), SPEC))
    state = state._replace(target_critics=linear_critics(state.target_critics, jnp.array([1.0, 2.0]), 5))
    full = jax.tree.map(lambda x: jnp.full_like(x, 50.0), state.target_actor.head)
    state = state._replace(target_actor=equinox.tree_at(lambda actor: actor.head, state.target_actor, full))  # 1
    rows = {"observation": jnp.ones((2, 3)), "base": jnp.array([[0.0, 0.0], [0.95, 0.0]])}
    noise = jnp.full((2, 2), 2.0)
    target = compute(lambda: agent.target(state, inputs_of(rows, next_noise=noise)))
    np.testing.assert_allclose(target, [0.5 * 0.15, 0.5], rtol=1e-4)  # 0.1 (1 + 0.5), and the box's bound


@pytest.mark.parametrize("kind", [ResidualTD3, ResidualSAC])
def test_the_policy_waits_for_the_critics_and_the_base_stays(kind):
    agent = kind(**TINY, base=base, critic_warmup=2, policy_delay=1)

    def run_learn():
        states = [agent.init(jax.random.key(0), SPEC)]
        for number in range(3):
            states.append(agent.learn(states[-1], batch(), CLOCK, jax.random.key(number))[0])
        return [(state.actor.head.weight, state.critics.body.layers[-1].weight) for state in states]

    actors, critics = zip(*at_once(run_learn), strict=True)
    moved = [bool((jnp.abs(new - old) > 0).any()) for old, new in itertools.pairwise(actors)]
    assert moved == [False, False, True]
    assert all((new != old).any() for old, new in itertools.pairwise(critics))


@pytest.mark.thorough
def test_a_run_keeps_its_base_and_refuses_another(tmp_path):
    small.train(tmp_path / "base", "td3")
    options = {"base": str(tmp_path / "base"), "hidden_sizes": (8,), "critics": 2, "learning_starts": 16}
    setup = resolve("residual-td3", "Pendulum-v1", seeds=1, steps=100, agent_options=options)
    again = from_config(setup.config())
    assert again.agent.base_policy.sha256 == setup.agent.base_policy.sha256 and again.agent.base_policy.weights is None
    policy = load_policy(tmp_path / "base")
    opened = setup.learner().agent
    state = jax.eval_shape(lambda: opened.init(jax.random.key(0), setup.spec))
    assert jax.tree.structure(state.base) == jax.tree.structure(policy.state)
    np.testing.assert_array_equal(opened.base_policy.weights.actor.head.weight, policy.state.actor.head.weight)

    with pytest.raises(ForageError, match="plays Pendulum-v1, which shows or takes other things"):
        resolve("residual-td3", "MountainCarContinuous-v0", seeds=1, steps=100, agent_options=options).learner()
    path = tmp_path / "base" / "agent.npz"
    path.write_bytes(path.read_bytes() + b" ")
    with pytest.raises(ForageError, match="has changed since this run began to build on it"):
        setup.learner()


REPLAY = {"hidden_sizes": (8,), "critics": 3, "batch_size": 4, "learning_starts": 16}
RUNS = {
    "residual-sac": REPLAY | {"critic_warmup": 8},
    "residual-td3": REPLAY | {"critic_warmup": 8},
    "residual-ppo": {"hidden_sizes": (8,), "num_envs": 2, "rollout_length": 8, "minibatches": 2},
    "dsrl": REPLAY | {"updates_per_rollout": 2},
}


@pytest.mark.thorough
@pytest.mark.parametrize("agent", RUNS)
def test_resumed_is_as_if_never_stopped_and_evaluated_without_the_base(agent, tmp_path, capsys):
    small.train(tmp_path / "base", "sac")
    options = RUNS[agent] | {"base": str(tmp_path / "base")}
    setup = resolve(agent, "Pendulum-v1", seeds=[3, 7], steps=2000, agent_options=options)
    runner = setup.runner()
    runner.begin()
    runner.advance(40)
    runner.save(tmp_path / "half.npz", {"steps": runner.steps})
    runner.advance(40)
    again = from_config(setup.config()).runner()
    again.load(tmp_path / "half.npz")
    again.advance(40)
    assert small.differing(runner.state, again.state) == []
    words = ("--base", tmp_path / "base", "--steps", "64", "--seeds", "2", "--hidden-sizes", "8")
    words += ("--directory", tmp_path / "run") + (("--learning-starts", "16") if "critics" in options else ())
    assert small.run_command(capsys, "train", agent, "Pendulum-v1", *words)[0] == 0
    (tmp_path / "base").rename(tmp_path / "gone")
    assert small.run_command(capsys, "evaluate", tmp_path / "run", "--episodes", "2")[0] == 0


def test_what_is_refused():
    def check_refused(words, given, agent=ResidualTD3):
        with pytest.raises(ForageError, match=words):
            check(agent(base=given), SPEC)

    check_refused("name the run of one with --base RUN", None)
    check_refused("The base of ResidualSAC does not return", lambda observation: observation, ResidualSAC)
    with pytest.raises(ForageError, match="holds no trained agent"):
        resolve("residual-td3", "Pendulum-v1", seeds=1, agent_options={"base": "nowhere"})
    agent = dataclasses.replace(ResidualTD3(base=base), residual_scale=0.5)
    check(agent, SPEC)
