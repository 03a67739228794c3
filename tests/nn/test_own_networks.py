"""A user's own encoders, activations, sizes, normalisation and optimisers, as options of agents."""

import json
from pathlib import Path

import equinox
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from gymnasium.spaces import Box
from my_networks import Plain, Sines
from small import PPO, REPLAY
from tiers import first, gate_cases

import forage
from forage.config import part_data
from forage.config.resolve import from_config, resolve
from forage.config.saved import load_policy
from forage.core.ports import ActInputs
from forage.core.types import ForageError
from forage.nn.encoders import Own
from forage.nn.layers import MLP, activation
from forage.nn.own import OwnCritic

FILE = Path(__file__).parent / "my_networks.py"
SMALL = REPLAY | {"hidden_sizes": (8,)}
AGENTS = {
    "ppo": ("CartPole-v1", PPO),
    "dqn": ("CartPole-v1", SMALL | {"n_step": 2}),
    "sac": ("Pendulum-v1", SMALL),
    "td3": ("Pendulum-v1", SMALL),
}


def state_of(name, **options):
    """Return a new agent and its state, after it has acted on one observation."""
    environment, given = AGENTS[name]
    setup = resolve(name, environment, agent_options=given | options)
    agent, spec = setup.agent, setup.spec
    state = agent.init(jax.random.key(0), spec)
    observation = jnp.full(spec.observation_space.shape, 0.1)
    action = agent.act(state, ActInputs(agent.init_hidden(spec), observation, jax.random.key(1), True))[0]
    assert np.isfinite(action).all()
    return agent, state


@pytest.mark.parametrize("name", gate_cases(AGENTS, list(AGENTS)[:1]))
def test_an_encoder_of_ones_own(name):
    """Its features go into the hidden layers of policy and value; and its numbers are learned."""
    _, state = state_of(name, encoder=f"{FILE}:Sines", activation=f"{FILE}:swish", layer_norm=True)
    network = {"ppo": "network", "dqn": "network", "sac": "critics", "td3": "critics"}[name]
    network = getattr(state, network)
    encoder = network.torsos.encoder if name == "ppo" else getattr(network, "torso", network).encoder
    assert encoder.arrays.linear.weight.shape[-2:] == (6, {"ppo": 4, "dqn": 4, "sac": 3, "td3": 3}[name])
    assert all(equinox.is_inexact_array(leaf) for leaf in jax.tree.leaves(network))


def test_the_features_of_an_encoder_are_counted_where_it_has_no_size():
    for cls, size in ((Plain, 5), (Sines, 6)):
        assert Own(cls, jax.random.key(0), Box(-1, 1, (4,))).size == size


@pytest.mark.thorough
def test_runs_with_ones_own(tmp_path):
    """All together, on the device and loaded from the file, and again from config.json."""
    given = PPO | {
        "encoder": f"{FILE}:Sines", "activation": f"{FILE}:swish", "optimiser": f"{FILE}:heavy",
        "value_sizes": (4, 4), "layer_norm": True,
    }  # fmt: skip
    run = forage.train(
        "ppo", "CartPole-v1", steps=32, seeds=1, directory=tmp_path / "run", agent_options=given, display="quiet",
        evaluation_episodes=1,
    )  # fmt: skip
    kept = json.loads((tmp_path / "run" / "config.json").read_text())["agent"]
    assert [kept[name] for name in ("encoder", "activation", "optimiser")] == [
        f"{FILE}:Sines", f"{FILE}:swish", f"{FILE}:heavy",
    ]  # fmt: skip
    assert run.agent.act(np.zeros(4, np.float32)) in (0, 1)
    assert from_config(run.config).agent.encoder.__name__ == "Sines"
    moved = load_policy(tmp_path / "run").state.network
    assert moved.state_torso.size == 4


def test_a_linear_policy():
    _, state = state_of("ppo", hidden_sizes=())
    assert state.network.torsos.body is None
    assert state.network.actor.weight.shape == (4, 2)


@pytest.mark.parametrize(
    "name", first(3, ["relu", "selu", "mish", "softplus", "hard_tanh", "celu", "leaky_relu", "swish"])
)
def test_any_activation_of_jax(name):
    x = jnp.linspace(-2, 2, 5)
    mlp = MLP(jax.random.key(0), (5, 3, 2), name)
    layers = mlp.layers
    expected = layers[1](getattr(jax.nn, name)(layers[0](x)))
    np.testing.assert_array_equal(mlp(x), expected)
    assert activation(name) is not None


def test_a_function_of_jax_is_kept_by_its_name():
    agent = resolve("ppo", "CartPole-v1", agent_options={"activation": jax.nn.selu, "optimiser": optax.lion}).agent
    assert (agent.activation, agent.optimiser) == ("selu", "lion")
    own = resolve("ppo", "CartPole-v1", agent_options={"activation": lambda x: x**3})
    assert "object" in part_data.to_config(own.agent)["activation"]


def test_layer_norm_is_what_it_says():
    mlp = MLP(jax.random.key(0), (4, 8, 2), layer_norm=True)
    x = 100 * jax.random.normal(jax.random.key(1), (5, 4))
    hidden = mlp.norms[0](mlp.layers[0](x))
    np.testing.assert_allclose(hidden.mean(-1), 0, atol=1e-5)
    np.testing.assert_allclose(hidden.std(-1), 1, atol=1e-3)
    np.testing.assert_allclose(mlp(x), mlp.layers[1](jax.nn.relu(hidden)), rtol=1e-6)
    assert MLP(jax.random.key(0), (4, 8, 2)).norms == ()


@pytest.mark.parametrize("name", ["ppo", "sac", "td3"])
@pytest.mark.thorough
def test_sizes_of_the_value(name):
    _, state = state_of(name, value_sizes=(5, 3))
    if name == "ppo":
        assert [layer.bias.shape for layer in state.network.state_torso.body.layers] == [(5,), (3,)]
        assert [layer.bias.shape for layer in state.network.torsos.body.layers] == [(1, 8)]
    else:
        assert [layer.bias.shape for layer in state.critics.body.layers] == [(2, 5), (2, 3), (2, 1)]
        assert [layer.bias.shape for layer in state.actor.torso.body.layers] == [(8,)]


@pytest.mark.parametrize("optimiser", ["adamw", "sgd", "rmsprop", "lion", optax.radam])
@pytest.mark.thorough
def test_optimisers_of_optax(optimiser):
    """One step of PPO's optimiser is that of Optax, after the gradient is cut."""
    agent, state = state_of("ppo", optimiser=optimiser)
    gradient = jax.tree.map(jnp.ones_like, state.network)
    moved, _ = agent.descent(0.1).step(gradient, state.optimiser, state.network)
    make = optimiser if callable(optimiser) else getattr(optax, optimiser)
    steps = optax.chain(optax.clip_by_global_norm(agent.max_gradient_norm), make(0.1))
    updates, _ = steps.update(gradient, steps.init(state.network), state.network)
    for one, other in zip(*map(jax.tree.leaves, (moved, optax.apply_updates(state.network, updates))), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-6)


@pytest.mark.parametrize(
    ("name", "given", "said"),
    [
        ("ppo", {"activation": "relo"}, "no activation 'relo' in jax.nn. Did you mean 'relu'"),
        ("ppo", {"activation": "one_hot"}, "no activation 'one_hot'"),
        ("ppo", {"activation": f"{FILE}:total"}, "does not give one number for each"),
        ("ppo", {"activation": f"{FILE}:swosh"}, "has no function or class swosh; it has swish"),
        ("ppo", {"optimiser": "adm"}, "no optimiser 'adm' in Optax. Did you mean 'adam'"),
        ("ppo", {"optimiser": "clip"}, "no optimiser 'clip'"),
        ("sac", {"optimiser": f"{FILE}:swish"}, "is no optimiser here"),
        ("ppo", {"encoder": f"{FILE}:Short"}, r"features of shape \(3,\), and its size is 6"),
        ("ppo", {"encoder": f"{FILE}:Single"}, r"Single gives features of shape \(\), and its size is 1; .* a vector"),
        ("td3", {"encoder": f"{FILE}:Keyless"}, "Keyless cannot encode"),
        ("ppo", {"encoder": f"{FILE}:NoModule"}, "NoModule cannot encode .*: TypeError: NoModule is no equinox.Module"),
        ("ppo", {"encoder": f"{FILE}:Silent"}, "Silent cannot encode .*: AssertionError: no message"),
        ("dqn", {"encoder": "nowhere:Sines"}, "no module nowhere"),
        ("ppo", {"value_sizes": (0,)}, "value-sizes of ppo is 1 or more"),
        ("ppo", {"value_sizes": (8,), "gru_size": 4}, "leave value_sizes out"),
    ],
)
def test_what_cannot_be_is_said_before_anything_begins(name, given, said):
    environment, usual = AGENTS.get(name, ("CartPole-v1", {}))
    with pytest.raises(ForageError, match=said):
        resolve(name, environment, agent_options=usual | given, steps=100_000).learner()


@pytest.mark.parametrize("option", ["hidden_sizes", "value_sizes", "layer_norm"])
def test_images_have_no_use_for_some(option):
    given = {"layer_norm": True}.get(option, (4,))
    with pytest.raises(ForageError, match=f"{option} has no effect on ppo"):
        resolve("ppo", "minatar:Breakout", agent_options={option: given})


OWN_AGENTS = FILE.with_name("my_agents.py")


@pytest.mark.thorough
@pytest.mark.parametrize("name", ["MySAC", "MyTD3"])
def test_an_actor_and_a_critic_of_ones_own_learn(name, tmp_path):
    given = {"agent_options": REPLAY, "steps": 64, "seeds": 1, "display": "quiet", "evaluation_episodes": 1}
    run = forage.train(f"{OWN_AGENTS}:{name}", "Pendulum-v1", directory=tmp_path / "run", **given)
    policy, seen = load_policy(run.directory), np.float32([[0.1, 0.2, 0.3], [1.0, 0.0, -1.0]])
    fresh = policy.agent.init(jax.random.key(0), policy.spec)
    for network in ("actor", "critics"):
        before, after = (jax.tree.leaves(getattr(state, network)) for state in (fresh, policy.state))
        assert all((np.asarray(a) != np.asarray(b)).any() for a, b in zip(before, after, strict=True)), network
    plain = forage.PlainPolicy(policy.export(tmp_path / "policy.npz"))
    np.testing.assert_allclose(plain.act(seen), policy.act(seen), atol=1e-5)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        (
            "Wide",
            r"Policy gives an array of shape \(5,\); an actor is an equinox.Module that makes 2 numbers",
        ),
        ("NoModule", "function is no equinox.Module; an actor is an equinox.Module that makes 2 numbers"),
        ("Fails", "make_actor of Fails failed with AssertionError: no message; it returns an equinox.Module"),
        (
            "Vector",
            "Policy cannot be called: TypeError: .*; a critic is an equinox.Module that makes one value",
        ),
    ],
)
def test_an_actor_that_cannot_be_is_a_sentence(name, said):
    with pytest.raises(ForageError, match=said):
        setup = resolve(f"{OWN_AGENTS}:{name}", "Pendulum-v1", agent_options=REPLAY, steps=100_000)
        jax.eval_shape(lambda key: setup.agent.init(key, setup.spec), jax.random.key(0))


class Rows(equinox.Module):
    """A critic that is called with a whole batch."""

    weight: jax.Array

    def __call__(self, observation, action):
        return jax.vmap(jnp.dot, (0, None))(jnp.concatenate([observation, action], 1), self.weight)


class Row(Rows):
    """The same for one observation."""

    def __call__(self, observation, action):
        return jnp.concatenate([observation, action]) @ self.weight


def test_a_critic_takes_one_observation_or_a_batch():
    spec = resolve("sac", "Pendulum-v1", agent_options=REPLAY).spec
    rows, row = (OwnCritic(kind(jnp.arange(1.0, 5.0)), spec, 1) for kind in (Rows, Row))
    assert (rows.batched, row.batched) == (True, False)
    seen, action = jnp.arange(6.0).reshape(2, 3), jnp.array([[1.0], [-1.0]])
    np.testing.assert_allclose(rows(seen, action), [0 + 2 + 6 + 4, 3 + 8 + 15 - 4])
    np.testing.assert_allclose(row(seen, action), rows(seen, action))
