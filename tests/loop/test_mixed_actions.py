"""Mixed actions on both roads: those that environments get, that trained agents return, and that files compute."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import small
from gymnasium import spaces
from mixed_helpers import FLAT, PARTS, Aim, GymAim, spec_with

import forage
from forage.agents.offline.bc import BC
from forage.agents.policy_gradient.ppo import PPO
from forage.core import prng
from forage.environments.checking import check_environment
from forage.environments.export.single import GymnasiumExport
from forage.environments.wrappers import FlatActions
from forage.loop.plain import PlainPolicy
from forage.loop.policy import Policy

small.keep_compiled()


def policy_of(agent, seed=1) -> Policy:
    spec = spec_with(FLAT)
    return Policy(agent, small.at_once(lambda: agent.init(prng.key(seed), spec)), spec)


def test_a_native_environment_gets_its_own_actions_and_agents_see_one_vector():
    environment = FlatActions(Aim())
    check_environment(environment, "Aim")
    assert environment.action_space == FLAT
    step = jax.jit(lambda action: environment.step(jnp.array([0.5, 0.25]), action, prng.key(0))[1].reward)
    assert step(jnp.array([0, 0, 1, 3, 1.25])) == pytest.approx(1)  # the right side, by the right power
    assert step(jnp.array([0, 0, 0, 3, 0.75])) == pytest.approx(-0.25)

    class Bits(Aim):
        action_space = spaces.MultiBinary(2)

        def step(self, state, action, key):
            return super().step(state, {"side": 5 + action[0], "power": action[1:].astype(jnp.float32)}, key)

    assert FlatActions(Bits()).action_space == spaces.MultiDiscrete([2, 2])
    reward = FlatActions(Bits()).step(jnp.array([0.5, 0.0]), jnp.array([1, 1]), prng.key(0))[1].reward
    assert reward == pytest.approx(1)


@pytest.mark.thorough
def test_a_native_environment_is_exported_with_its_own_actions():
    exported = GymnasiumExport(Aim())
    assert exported.action_space == PARTS
    seen, _ = exported.reset(seed=0)
    action = PARTS.sample()
    action["side"], action["power"] = 5 + int(seen[0] > 0), np.float32([seen[1] + 1])
    assert exported.step(action)[1] == pytest.approx(1, abs=1e-5)
    exported.reset()
    with pytest.raises(forage.ForageError, match="takes actions in Dict"):
        exported.step({"side": 5})


def test_a_policy_hands_out_nested_actions_and_its_files_do_the_same(tmp_path):
    policy = policy_of(PPO(hidden_sizes=(8,)))
    one, rows = np.float32([0.3, -0.2]), np.float32([[0.3, -0.2], [0.1, 0.9]])
    action, actions = policy.act(one), policy.act(rows)
    assert PARTS.contains(action) and type(action["side"]) is int and isinstance(action["more"], tuple)
    assert actions["power"].shape == (2, 1) and actions["more"][0].shape == (2, 2) and actions["side"].shape == (2,)
    assert PARTS.contains(policy.act(one, explore=True))
    flat = policy.agent_action(one)
    np.testing.assert_allclose(flat, [*action["more"][0], action["side"] - 5, flat[3], *action["power"]], rtol=1e-6)
    assert round(float(flat[3])) == action["more"][1]
    plain = PlainPolicy(policy.export(tmp_path / "policy.npz"))
    for seen, wanted in ((one, action), (rows, actions)):
        found = plain.act(seen)
        assert found.keys() == wanted.keys() and isinstance(found["more"], tuple)
        jax.tree.map(lambda x, y: np.testing.assert_allclose(x, y, rtol=1e-5, atol=1), found, wanted)


@pytest.mark.thorough
def test_an_onnx_model_has_an_output_for_each_leaf(tmp_path):
    onnxruntime = pytest.importorskip("onnxruntime")
    policy = policy_of(PPO(hidden_sizes=(8,)))
    session = onnxruntime.InferenceSession(policy.export(tmp_path / "policy.onnx"))
    names = [output.name for output in session.get_outputs()]
    assert names == ["action.more.0", "action.more.1", "action.power", "action.side"]
    rows = np.float32([[0.3, -0.2], [0.1, 0.9]])
    found = session.run(None, {session.get_inputs()[0].name: rows})
    for array, wanted in zip(found, jax.tree.leaves(policy.act(rows)), strict=True):
        np.testing.assert_allclose(array, wanted, rtol=1e-5, atol=1)


@pytest.mark.thorough
def test_cloning_raises_the_likelihood_of_both_halves():
    agent = BC(hidden_sizes=(8,), learning_rate=0.05)
    policy = policy_of(agent)
    action = jnp.tile(jnp.array([1.0, 0, 1, 60_000, 1.5]), (8, 1))
    seen = jax.random.normal(prng.key(2), (8, 2))

    def train(state):
        def update(state, _):
            gradient = jax.grad(lambda policy: -policy.log_probability(seen, action).mean())(state.policy)
            stepped, optimiser = agent.descent().step(gradient, state.optimiser, state.policy)
            return state._replace(policy=stepped, optimiser=optimiser), ()

        return jax.lax.scan(update, state, length=200)[0]

    trained = Policy(agent, jax.jit(train)(policy.state), policy.spec)
    found = trained.act(np.asarray(seen))
    np.testing.assert_array_equal(found["side"], [6] * 8)
    np.testing.assert_array_equal(found["more"][0], [[1, 0]] * 8)
    np.testing.assert_allclose(found["power"], [[1.5]] * 8, atol=0.1)
    np.testing.assert_allclose(found["more"][1], [60_000] * 8, atol=4_000)


@pytest.mark.thorough
@pytest.mark.parametrize("agent", ["ppo", "a2c", "impala", "reinforce", "sac"])
def test_agents_learn_on_the_host_and_what_they_did_is_recorded(agent, tmp_path):
    options = {"hidden_sizes": (8,)} | ({"learning_starts": 50, "batch_size": 8} if agent == "sac" else {"num_envs": 2})
    run = forage.train(agent, GymAim, steps=200, seeds=1, directory=tmp_path / "run", agent_options=options)
    assert np.isfinite(run.evaluation["return"]).all()
    again = forage.resume(run.directory, steps=300)
    assert PARTS.contains(again.act(np.zeros(2, np.float32)))
    forage.data.record(run.directory, 50, tmp_path / "data.npz", actions="sampled", random=0.5)
    data, header = forage.data.load(tmp_path / "data.npz")
    assert header["spec"]["action_space"]["kind"] == "mixed" and all(map(FLAT.contains, data.action))
    spoilt = dataclasses.replace(data, action=data.action + np.float32([0.5, 0, 0, 0, 0]))
    with pytest.raises(forage.ForageError, match="row 0 has the action"):
        forage.data.save(tmp_path / "spoilt.npz", spoilt, header)
        forage.train("bc", Aim(), data=tmp_path / "spoilt.npz", steps=10)
