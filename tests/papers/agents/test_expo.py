"""EXPO: the end of a flow, the choice among candidates, and the targets of edits and base."""

import equinox
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from critic_helpers import inputs_of
from fine_tuning_helpers import SPEC, batch, constant, linear_critics
from small import at_once, compute

from forage.core.ports import ActInputs
from forage.core.types import Clock, ForageError
from forage.nn.networks import NetworkConfig
from forage.ops.optimiser import make_named_optimiser
from forage_papers.agents.actor_critic.offline_to_online.expo import EXPO, Flow

SMALL = {"hidden_sizes": (), "critics": 2, "target_subset": 0, "policy_delay": 1, "critic_norm": "none"}
AGENT = EXPO(**SMALL, candidates=4, edited=2, edit_scale=0.25, discount=0.9, learning_rate=1e-2)


def flowing(flow, velocity):
    """The flow with one velocity everywhere."""
    return constant(flow, lambda flow: flow.body.layers[-1].bias, velocity)


def test_a_flow_of_one_velocity_moves_by_it_and_stays_in_the_box():
    flow = at_once(lambda: Flow(jax.random.key(0), SPEC, 2, (), NetworkConfig()))
    noise = np.array([[0.1, -0.2], [0.5, 3.0]])
    action = compute(lambda f: f.actions(jnp.zeros((2, 3)), noise, 5), flowing(flow, [0.3, 0.4]))
    np.testing.assert_allclose(action, [[0.4, 0.2], [0.8, 1.0]], rtol=1e-5)


def test_a_flow_learns_what_is_shown():
    """Each of two observations has an action of its own."""
    seen, action = np.eye(3, dtype=np.float32)[[0, 1] * 32], np.array([[0.5, -0.5], [-0.8, 0.2]] * 32, np.float32)

    def fit():
        flow = Flow(jax.random.key(0), SPEC, 2, (32,), NetworkConfig())

        optimiser = make_named_optimiser("adam", 0.01)

        def step(number, both):
            flow, moments = both
            key = jax.random.fold_in(jax.random.key(1), number)
            slope = jax.grad(Flow.loss)(flow, seen, action, jnp.ones(64, bool), key)
            return optimiser.step(slope, moments, flow)

        flow, _ = jax.lax.fori_loop(0, 800, step, (flow, optimiser.init(flow)))
        return flow.actions(seen, jax.random.normal(jax.random.key(2), action.shape), 10)

    assert np.abs(compute(fit) - action).mean() < 0.2


def test_the_best_candidate_may_be_an_edited_one():
    """Critics say the action's first number, edits add 0.25 tanh(10): the furthest draw wins, or an edited one does."""
    state = at_once(lambda: AGENT.init(jax.random.key(0), SPEC))
    slope = linear_critics(state.target_critics, jnp.array([1.0, 1.0]), 3)
    actor = constant(state.actor, lambda actor: actor.head.bias, [10.0, 0.0, -20.0, -20.0])
    state = state._replace(target_critics=slope, actor=actor, target_base=flowing(state.target_base, [0.0, 0.0]))
    key = jax.random.key(5)
    found = compute(lambda s: AGENT.best(s, s.target_base, jnp.zeros((6, 3)), key), state)
    drawn = jax.random.normal(jax.random.split(key, 3)[0], (24, 2)).reshape(6, 4, 2).clip(-1, 1)
    first = np.asarray(drawn[..., 0])
    edited = np.minimum(first[:, :2] + 0.25, 1.0)
    np.testing.assert_allclose(found[:, 0], np.maximum(first.max(1), edited.max(1)), rtol=1e-4)
    assert (edited.max(1) > first.max(1)).any()
    action = compute(lambda s: AGENT.act(s, ActInputs((), jnp.zeros(3), key, False))[0], state)
    assert SPEC.action_space.contains(np.asarray(action))


def test_edits_climb_what_was_done_and_targets_count_no_entropy():
    state = at_once(lambda: AGENT.init(jax.random.key(0), SPEC))
    slope = linear_critics(state.critics, jnp.array([1.0, 3.0]), 3)
    shown = {"observation": jnp.zeros((1, 3)), "base": jnp.array([[0.5, 0.0]])}
    np.testing.assert_allclose(compute(AGENT.policy_value, slope, shown, jnp.array([[0.4, 0.0]])), [2 * 0.6], rtol=1e-5)
    flat = jax.tree.map(jnp.zeros_like, slope)
    flat = equinox.tree_at(lambda c: c.body.layers[-1].bias, flat, jnp.array([[5.0], [6.0]]))
    keys = AGENT.critic_keys(jax.random.key(0))
    inputs = inputs_of(np.zeros((2, 3)), reward=1.0, terminated=np.array([False, True]), keys=keys)
    target = compute(lambda s: AGENT.target(s, inputs), state._replace(target_critics=flat))
    np.testing.assert_allclose(target, [1 + 0.9 * 5, 1], rtol=1e-5)


def test_an_update_moves_all_four():
    def run_learn():
        state = AGENT.init(jax.random.key(0), SPEC)
        return state, AGENT.learn(state, batch(), Clock(jnp.int32(0), jnp.float32(9)), jax.random.key(1))

    before, (after, metrics, error) = at_once(run_learn)
    for name in ("actor", "critics", "base", "target_base", "target_critics", "log_temperature"):
        pairs = zip(*map(jax.tree.leaves, (getattr(before, name), getattr(after, name))), strict=True)
        assert any((old != new).any() for old, new in pairs), name
    assert error.shape == (4,) and all(np.isfinite(value) for value in metrics.values())


def test_what_is_refused():
    with pytest.raises(ForageError, match="edited of EXPO is at most candidates"):
        EXPO(candidates=2, edited=3)
    with pytest.raises(ForageError, match="leave count_dormant out"):
        EXPO(count_dormant=True)
