"""Forage's agents that act as models of Stable-Baselines3: their options, and their networks' weights."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import equinox
import jax
import jax.numpy as jnp
import numpy as np
from gymnasium import spaces

from forage.config import registry
from forage.core import prng
from forage.core.ports import Agent
from forage.core.types import ForageError, Spec
from forage.nn.distributions import Actions
from forage.nn.layers import Linear
from forage.nn.normalise import RunningNorm
from forage.studies.sb3.archive import Model, Opaque, Statistics, read_setting

ACTIVATIONS = {
    "Tanh": "tanh",
    "ReLU": "relu",
    "ELU": "elu",
    "SiLU": "silu",
    "LeakyReLU": "leaky_relu",
    "SELU": "selu",
    "Sigmoid": "sigmoid",
    "Softplus": "softplus",
    "Softsign": "soft_sign",
    "Mish": "mish",
}
"""PyTorch's activations with the same formula in `jax.nn`."""

Layers = list[tuple[np.ndarray, np.ndarray]]
"""Weights (inputs, outputs) and biases of a stack of layers."""


def kind_of(model: Model) -> str:
    """Return the name of Forage's agent for a model, by the names of its weights. Raise `ForageError` for others."""
    names = model.weights.keys()
    if custom := next((name for name in names if "features_extractor." in name), None):
        raise ForageError(
            f"{model.name} reads observations by a network of its own ({custom}), and policies without one are "
            f"imported: MlpPolicy on a vector or a number."
        )
    if any(name.startswith("lstm") for name in names):
        raise ForageError(f"{model.name} has an LSTM, and policies without memory are imported.")
    if "action_net.weight" in names:
        return "ppo" if "clip_range" in model.settings else "a2c"
    if "q_net.q_net.0.weight" in names:
        return "dqn"
    if "actor.log_std.weight" in names or "actor.log_std" in names:
        return "sac"
    if "actor_target.mu.0.weight" in names:
        return "td3"
    raise ForageError(f"{model.name} is none of PPO, A2C, SAC, TD3, DDPG and DQN of Stable-Baselines3.")


def layers_of(model: Model, prefix: str) -> Layers:
    """Return the linear layers whose names begin so, in order."""
    found = {}
    for name, weight in model.weights.items():
        if match := re.fullmatch(rf"{re.escape(prefix)}(?:\.(\d+))?\.weight", name):
            if weight.ndim != 2:
                raise ForageError(f"{model.name} has {name} of shape {weight.shape}, and plain layers are imported.")
            bias = model.weights.get(name.replace("weight", "bias"), np.zeros(len(weight)))
            found[int(match[1] or 0)] = (weight.T.astype(np.float32), bias.astype(np.float32))
    return [found[number] for number in sorted(found)]


def sizes_of(layers: Layers) -> tuple[int, ...]:
    """Return the outputs of each layer."""
    return tuple(weight.shape[1] for weight, _ in layers)


def activation_of(model: Model, usual: str) -> str:
    """Return the activation of a model's layers. Raise `ForageError` for other formulas than Forage has."""
    named = policy_options(model).get("activation_fn")
    if named is None:
        return usual
    name = str(named).rstrip("'>").rpartition(".")[2]
    if name not in ACTIVATIONS:
        raise ForageError(f"{model.name} has the activation {name}; imported are {', '.join(ACTIVATIONS)}.")
    return ACTIVATIONS[name]


def policy_options(model: Model) -> dict[str, Any]:
    """Return the options of a model's policy, as texts where they are no plain data."""
    found = model.settings.get("policy_kwargs")
    return found if isinstance(found, dict) else {}


def agent_of(model: Model, kind: str, statistics: Statistics | None) -> Agent:
    """Return the agent with the networks of a model, untrained."""
    usual = "tanh" if kind in ("ppo", "a2c") else "relu"
    options: dict[str, Any] = {"activation": activation_of(model, usual)}
    if kind in ("ppo", "a2c"):
        policy, value = (sizes_of(layers_of(model, f"mlp_extractor.{which}_net")) for which in ("policy", "value"))
        options |= {"hidden_sizes": policy, "value_sizes": () if policy == value else value}
        if policy != value and not value:
            raise ForageError(f"{model.name} has a value without hidden layers beside a policy with some.")
    elif kind == "dqn":
        options |= {"hidden_sizes": sizes_of(layers_of(model, "q_net.q_net"))[:-1], "dueling": False, "n_step": 1}
    else:
        critics = sum(name.endswith(".0.weight") for name in model.weights if name.startswith("critic.qf"))
        actor = layers_of(model, "actor.latent_pi") if kind == "sac" else layers_of(model, "actor.mu")[:-1]
        options |= {
            "hidden_sizes": sizes_of(actor),
            "value_sizes": sizes_of(layers_of(model, "critic.qf0"))[:-1],
            "critics": critics,
        }
    if model.settings.get("use_sde"):
        options["state_dependent_noise"] = True
        check_noise(model, kind)
    if statistics is not None:
        check_statistics(model, statistics)
        options["normalise_observation"] = True
    names = {"gamma": "discount", "gae_lambda": "gae_lambda", "learning_rate": "learning_rate"}
    for theirs, ours in names.items():
        value = model.settings.get(theirs)
        if isinstance(value, float | int) and (ours != "gae_lambda" or kind in ("ppo", "a2c")):
            options[ours] = float(value)
    if kind == "sac" and isinstance(fixed := model.settings.get("ent_coef"), float | int):
        options |= {"initial_temperature": float(fixed), "learn_temperature": False}
    return registry.build("agent", kind, options)


def check_noise(model: Model, kind: str) -> None:
    """Raise `ForageError` for noise that depends on the state in a way that Forage has not."""
    asked = policy_options(model)
    if str(asked.get("squash_output", False)) == "True" and kind != "sac":
        raise ForageError(f"{model.name} squashes its actions by a tanh, which Forage's {kind} does not.")
    if float(asked.get("clip_mean", 2.0)) != 2.0:
        raise ForageError(f"{model.name} cuts means at {asked['clip_mean']}, and Forage's sac at 2.")


def check_statistics(model: Model, statistics: Statistics) -> None:
    """Raise `ForageError` for statistics that Forage would use otherwise."""
    if not np.isclose(statistics.clip, 10.0) or not np.isclose(statistics.epsilon, 1e-8):
        raise ForageError(
            f"The VecNormalize of {model.name} has clip_obs {statistics.clip:g} and epsilon {statistics.epsilon:g}; "
            f"Forage normalises with 10 and 1e-08, Stable-Baselines3's own."
        )


def check_trained_spaces(model: Model, spec: Spec) -> None:
    """Raise `ForageError` if a model was trained with other observations or actions than an environment's."""
    for what, space in (("observation", spec.observation_space), ("action", spec.action_space)):
        stored = read_setting(model, f"{what}_space")
        theirs, ours = words_of_stored(stored), words_of_space(space)
        verb = "sees" if what == "observation" else "takes"
        if theirs != ours:
            raise ForageError(
                f"{model.name} was trained with {what}s in {theirs}, and {spec.name} {verb} {ours}; name the "
                f"environment that it was trained in."
            )
        if what == "action" and isinstance(space, spaces.Box):
            for end in ("low", "high"):
                if not np.allclose(getattr(stored, end), getattr(space, end)):
                    raise ForageError(
                        f"{model.name} was trained with actions whose {end} is {getattr(stored, end).tolist()}, and "
                        f"in {spec.name} it is {getattr(space, end).tolist()}; name the environment that it was "
                        f"trained in."
                    )


def words_of_stored(space: Any) -> str:
    """Return a stored space as `words_of_space` names one of Gymnasium's."""
    kind, state = type(space).__name__, vars(space) if isinstance(space, Opaque) else {}
    if kind == "Box":
        return f"Box{tuple(int(n) for n in state['_shape'])} of {np.dtype(state['dtype'])}"
    if kind == "Discrete":
        return f"Discrete({int(state['n'])})"
    return f"MultiDiscrete({np.asarray(state['nvec']).tolist()})" if kind == "MultiDiscrete" else kind


def words_of_space(space: spaces.Space[Any]) -> str:
    """Return a space in few words. Raise `ForageError` for spaces whose policies are not imported."""
    if isinstance(space, spaces.Box):
        return f"Box{space.shape} of {space.dtype}"
    if isinstance(space, spaces.Discrete):
        return f"Discrete({int(space.n)})"
    return f"MultiDiscrete({space.nvec.tolist()})" if isinstance(space, spaces.MultiDiscrete) else str(space)


def state_of(model: Model, kind: str, agent: Agent, spec: Spec, statistics: Statistics | None) -> Any:
    """Return the state of an agent with a model's weights; optimisers start fresh."""
    if not isinstance(spec.observation_space, spaces.Discrete) and not (
        isinstance(spec.observation_space, spaces.Box) and spec.observation_space.dtype.kind == "f"
    ):
        raise ForageError(
            f"Policies on vectors of floats or on a number are imported, not on {spec.observation_space}."
        )
    state = jax.jit(lambda key: agent.init(key, spec))(prng.key(0))
    if statistics is not None:
        mean, variance = (jnp.asarray(x, jnp.float32) for x in (statistics.mean, statistics.variance))
        state = replace_field(state, norm=RunningNorm(jnp.float32(statistics.count), mean, variance))
    if kind in ("ppo", "a2c"):
        return replace_field(state, network=actor_critic(model, state.network))
    if kind == "dqn":
        networks = {"network": "q_net.q_net", "target": "q_net_target.q_net"}
        return replace_field(state, **{name: q_network(model, getattr(state, name), p) for name, p in networks.items()})
    changed: dict[str, Any] = {"actor": actor(model, kind, state.actor, "actor")}
    if kind == "td3":
        changed["target_actor"] = actor(model, kind, state.target_actor, "actor_target")
    for name, prefix in (("critics", "critic"), ("target_critics", "critic_target")):
        changed[name] = critics(model, getattr(state, name), prefix)
    if kind == "sac" and "log_ent_coef" in model.variables:
        changed["log_temperature"] = jnp.float32(model.variables["log_ent_coef"].reshape(()))
    return replace_field(state, **changed)


def replace_field(state: Any, **fields: Any) -> Any:
    """Return a state with other fields, of the same types and shapes."""
    for name, value in fields.items():
        if jax.tree.map(jnp.shape, value) != jax.tree.map(jnp.shape, getattr(state, name)):
            raise ForageError(f"The weights do not have the shapes of this agent's {name}; its layers are others.")
    return state._replace(**fields)


def linear(layer: Linear, weight: Any, bias: Any) -> Linear:
    """Return a layer with other numbers."""
    return equinox.tree_at(lambda one: (one.weight, one.bias), layer, (jnp.asarray(weight), jnp.asarray(bias)))


def stack(old: Sequence[Linear], layers: Sequence[tuple[Any, Any]]) -> tuple[Linear, ...]:
    """Return layers with other numbers. Raise `ForageError` if their number differs."""
    if len(old) != len(layers):
        raise ForageError(f"The model has {len(layers)} layers where the agent has {len(old)}.")
    return tuple(linear(layer, *numbers) for layer, numbers in zip(old, layers, strict=True))


def with_body(torso: Any, layers: Sequence[tuple[Any, Any]]) -> Any:
    """Return a torso whose hidden layers have other numbers."""
    if torso.body is None:
        return torso
    return equinox.tree_at(lambda t: t.body.layers, torso, stack(torso.body.layers, layers))


def side_by_side(one: Layers, other: Layers) -> list[tuple[Any, Any]]:
    """Return the layers of two networks of the same sizes, with an axis for both first."""
    return [
        (np.stack([w, other_w]), np.stack([b, other_b])) for (w, b), (other_w, other_b) in zip(one, other, strict=True)
    ]


def actor_critic(model: Model, network: Any) -> Any:
    """Return the network of PPO with a model's weights; its means move from the environment's units to the unit box."""
    policy, value = (layers_of(model, f"mlp_extractor.{which}_net") for which in ("policy", "value"))
    (weight, bias), (value_weight, value_bias) = (layers_of(model, f"{which}_net")[0] for which in ("action", "value"))
    actions: Actions = network.actions
    changed: dict[str, Any] = {}
    if not actions.discrete:
        middle = actions.to_box(jnp.zeros(actions.outputs)).reshape(-1)
        if actions.fixed:
            raise ForageError(f"{model.name} acts in a box with fixed entries, which is not imported.")
        half = actions.half_range
        weight, bias = weight / half, (bias - middle) / half
        deviation = model.weights["log_std"].astype(np.float32) - np.log(half)
        changed["log_std"] = jnp.asarray(deviation, jnp.float32)
    changed |= {"actor": linear(network.actor, jnp.float32(weight), jnp.float32(bias))}
    changed |= {"critic": linear(network.critic, value_weight, value_bias)}
    if network.state_torso is None:
        changed["torsos"] = with_body(network.torsos, side_by_side(policy, value))
    else:
        changed["torsos"] = with_body(network.torsos, [(w[None], b[None]) for w, b in policy])
        changed["state_torso"] = with_body(network.state_torso, value)
    return equinox.tree_at(lambda n: [getattr(n, name) for name in changed], network, list(changed.values()))


def q_network(model: Model, network: Any, prefix: str) -> Any:
    """Return DQN's network with a model's weights."""
    *hidden, last = layers_of(model, prefix)
    torso, advantage = with_body(network.torso, hidden), stack(network.advantage.layers, [last])
    return equinox.tree_at(lambda n: (n.torso, n.advantage.layers), network, (torso, advantage))


def actor(model: Model, kind: str, network: Any, prefix: str) -> Any:
    """Return the policy of SAC or TD3 with a model's weights."""
    if kind == "td3":
        *hidden, head = layers_of(model, f"{prefix}.mu")
    else:
        hidden, (head,) = layers_of(model, f"{prefix}.latent_pi"), layers_of(model, f"{prefix}.mu")
    if kind == "sac" and network.log_std is None:
        (deviation,) = layers_of(model, f"{prefix}.log_std")
        head = tuple(np.concatenate(parts, axis=-1) for parts in zip(head, deviation, strict=True))
    elif kind == "sac":
        network = equinox.tree_at(lambda n: n.log_std, network, jnp.asarray(model.weights[f"{prefix}.log_std"]))
    changed = with_body(network.torso, hidden), linear(network.head, *head)
    return equinox.tree_at(lambda n: (n.torso, n.head), network, changed)


def critics(model: Model, network: Any, prefix: str) -> Any:
    """Return stacked critics with a model's weights."""
    number = len(jax.tree.leaves(network)[0])
    each = [layers_of(model, f"{prefix}.qf{i}") for i in range(number)]
    stacked = [(np.stack([w for w, _ in rows]), np.stack([b for _, b in rows])) for rows in zip(*each, strict=True)]
    return equinox.tree_at(lambda n: n.body.layers, network, stack(network.body.layers, stacked))
