"""SAC Flow: soft actor-critic with a flow of several steps as its policy, trained end to end.

Zhang, Yu, Zhang, Guang, Hui, Long, Wang, Yu, Ding (2025), "SAC Flow: Sample-Efficient Reinforcement Learning of
Flow-Based Policies via Velocity-Reparameterized Sequential Modeling", arXiv 2509.25756. With x_0 and e_k standard
normal, K = `flow_steps` and t = k / K,

    x_{k+1} = x_k + v(s, x_k, t) / K + sigma e_k,    a = tanh x_K

The noise gives each rollout a density, the product of those of x_0 and of all steps over the derivative of tanh:

    log p = log N(x_0; 0, 1) + sum_k log N(x_{k+1}; x_k + v / K, sigma^2) - sum log(1 - a^2)

which stands in all losses where SAC has the density of the action. Gradients go back through the rollout as through a
recurrent network of K steps, so the velocity v has a form whose gradients neither vanish nor explode:

    gated     (Flow-G)  v = z (h - x),   z = sigmoid(g(s, x, t)),   g and h networks; z is nearly 1 at first
    decoder   (Flow-T)  each x_k is a token, x W + time(t), that a transformer's decoder reads beside the token of s
    plain               v = h(s, x, t), the unstable form that the authors compare with

A token of the decoder sees itself and the state alone, so that its attention is a linear map of each:

    y <- norm(y + A y);   y <- norm(y + B s);   y <- norm(y + mlp(y));   at last   v = C y,  log sigma from D y

From data, the authors' first stage imitates actions by flow matching (`imitate`; `nn/flow.py`) while the critics learn,
and their second one goes on online with SAC's losses and `cloning` times |a - b|^2, b the action of the replay:
`forage train sac-flow ENV --data FILE --imitate`, then `forage train sac-flow --from RUN --cloning 1`.

Forms, sizes, bounds of sigma and the entropy target are those of the authors' programs (SAC_flow_gru_jax.py,
SAC_flow_transformer_jax.py and acfql_gru_ablation_online_sac.py of github.com/Elessar123/SAC-FLOW); the paper's own
pages could not be looked up beyond the abstract. Their programs from scratch have CrossQ's batch normalisation and
critics, where SAC's critics and targets stand here. For Flow-T they add noise to the velocity and leave log sigma out
of the density, where here both forms have Flow-G's; and they match the flow to a, where x_K is here to be arctanh a,
of actions no further out than 0.99.
"""

from __future__ import annotations

import math
from typing import Any, ClassVar, NamedTuple

import equinox
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key, PyTree

from forage.agents.actor_critic.base import UpdateInputs
from forage.agents.actor_critic.sac import SAC, ActorReport
from forage.core.ports import ActInputs, Metrics, State
from forage.core.ports.needs import Choices, Unused
from forage.core.ranges import Range, Ranges
from forage.core.types import Batch, Clock, ForageError, Spec
from forage.nn.distributions import Actions, squash_to
from forage.nn.layers import MLP, Linear, Norm
from forage.nn.networks import NetworkConfig, Torso
from forage.nn.normalise import apply_norm
from forage.ops.rows import weighted_mean
from forage_papers.nn.flow import matching_error

FLOWS = ("gated", "decoder", "plain")
LEAST, MOST = -5.0, 2.0
"""Bounds of log sigma."""
FAR = 0.99
"""Largest absolute action for imitation: actions beyond count as this, because the flow cannot reach the bound."""


def embed_time(time: Float[Array, "*batch 1"], size: int = 32) -> Float[Array, "*batch size"]:
    """Return sines and cosines of times, of frequencies from 1 down to 1e-4."""
    frequencies = 1e4 ** (-jnp.arange(size // 2) / (size // 2 - 1))
    angles = time * frequencies
    return jnp.concatenate([jnp.sin(angles), jnp.cos(angles)], axis=-1)


class Stepwise(equinox.Module):
    """Networks of state, place and time: a candidate and, of a gated velocity, the gate; sigma is of the state."""

    time: MLP
    gate: MLP | None
    candidate: MLP
    deviation: MLP

    def __init__(self, key: Key[Array, ""], features: int, dimensions: int, agent: SACFlow):
        keys = jax.random.split(key, 4)
        sizes = features + dimensions + 32, *agent.hidden_sizes, dimensions
        self.time = MLP(keys[0], (32, 64, 32), "silu")
        self.candidate = MLP(keys[1], sizes, "silu", layer_norm=agent.layer_norm)
        gate = MLP(keys[2], sizes, "silu", layer_norm=agent.layer_norm) if agent.flow == "gated" else None
        if gate is not None:  # open at first, whatever it is asked
            ends = lambda n: (n.layers[-1].weight, n.layers[-1].bias)  # noqa: E731
            shut = jnp.zeros_like(gate.layers[-1].weight), jnp.full(dimensions, 5.0)
            gate = equinox.tree_at(ends, gate, shut)
        self.gate = gate
        self.deviation = MLP(
            keys[3], (features, *agent.noise_sizes, dimensions), agent.activation, layer_norm=agent.layer_norm
        )

    def __call__(
        self, features: Float[Array, "*batch features"], x: Float[Array, "*batch dimensions"], time: Any
    ) -> tuple[Float[Array, "*batch dimensions"], Float[Array, "*batch dimensions"]]:
        """Return the velocity, and the unbounded output for log sigma."""
        inputs = jnp.concatenate([features, x, self.time(embed_time(time))], axis=-1)
        velocity = self.candidate(inputs)
        if self.gate is not None:
            velocity = jax.nn.sigmoid(self.gate(inputs)) * (velocity - x)
        return velocity, self.deviation(features)


class DecoderLayer(equinox.Module):
    """One layer of the decoder; its token attends to itself and to the state's token."""

    own: tuple[Linear, Linear]  # values, and what leaves attention
    cross: tuple[Linear, Linear]
    inner: MLP
    norms: tuple[Norm, Norm, Norm]

    def __init__(self, key: Key[Array, ""], width: int):
        *keys, inner_key = jax.random.split(key, 5)
        linear = [Linear(k, width, width) for k in keys]
        self.own, self.cross = (linear[0], linear[1]), (linear[2], linear[3])
        self.inner = MLP(inner_key, (width, 4 * width, width), "gelu")
        self.norms = (Norm(width), Norm(width), Norm(width))

    def __call__(self, y: Float[Array, "*batch width"], state: Float[Array, "*batch width"]) -> Any:
        y = self.norms[0](y + self.own[1](self.own[0](y)))
        y = self.norms[1](y + self.cross[1](self.cross[0](state)))
        return self.norms[2](y + self.inner(y))


class Decoder(equinox.Module):
    """Velocity and sigma by cross-attention from the token of a place and its time to that of the state."""

    state: MLP
    place: Linear
    time: MLP
    layers: tuple[DecoderLayer, ...]
    velocity: Linear
    deviation: Linear

    def __init__(self, key: Key[Array, ""], features: int, dimensions: int, agent: SACFlow):
        keys, width = jax.random.split(key, 5 + agent.decoder_layers), agent.decoder_width
        self.state = MLP(keys[0], (features, width // 2, width), "silu")
        self.place = Linear(keys[1], dimensions, width)
        self.time = MLP(keys[2], (1, width // 4, width // 2, width), "silu")
        self.velocity, self.deviation = Linear(keys[3], width, dimensions), Linear(keys[4], width, dimensions)
        self.layers = tuple(DecoderLayer(k, width) for k in keys[5:])

    def __call__(
        self, features: Float[Array, "*batch features"], x: Float[Array, "*batch dimensions"], time: Any
    ) -> tuple[Float[Array, "*batch dimensions"], Float[Array, "*batch dimensions"]]:
        """Return the velocity, and the unbounded output for log sigma."""
        state, y = self.state(features), self.place(x) + self.time(time)
        for layer in self.layers:
            y = layer(y, state)
        return self.velocity(y), self.deviation(y)


class FlowActor(equinox.Module):
    """The policy: a torso that reads observations, and the velocity of the flow from noise to an action."""

    torso: Torso
    velocity: Stepwise | Decoder
    actions: Actions = equinox.field(static=True)
    steps: int = equinox.field(static=True)

    def __init__(self, key: Key[Array, ""], spec: Spec, agent: SACFlow, style: NetworkConfig):
        torso_key, velocity_key = jax.random.split(key)
        self.actions, self.steps = Actions.from_space(spec.action_space), agent.flow_steps
        self.torso = Torso(torso_key, spec.observation_space, (), style)
        kind = Decoder if agent.flow == "decoder" else Stepwise
        self.velocity = kind(velocity_key, self.torso.size, self.actions.outputs, agent)

    @property
    def draws(self) -> int:
        """Return the number of standard normal numbers for a rollout."""
        return (self.steps + 1) * self.actions.outputs

    def __call__(self, observation: PyTree[Array]) -> Rollouts:
        """Return the rollouts from a batch of observations (leaves `batch ...`)."""
        return Rollouts(self, self.torso.rows(observation))


class Rollouts(NamedTuple):
    """The rollouts of a policy from a batch of observations."""

    actor: FlowActor
    features: Float[Array, "batch features"]

    def step(self, x: Float[Array, "batch dimensions"], number: Any) -> tuple[Any, Any]:
        """Return the place after step `number` from x without noise, and log sigma."""
        time = jnp.full((*x.shape[:-1], 1), number / self.actor.steps)
        velocity, deviation = self.actor.velocity(self.features, x, time)
        return x + velocity / self.actor.steps, squash_to(deviation, LEAST, MOST)

    def from_noise(
        self, noise: Float[Array, "batch draws"]
    ) -> tuple[Float[Array, "batch dimensions"], Float[Array, " batch"]]:
        """Return actions and the log-densities of their rollouts, both differentiable."""
        first, *others = jnp.split(noise, self.actor.steps + 1, axis=-1)

        def turn(carry: Any, now: Any) -> tuple[Any, None]:
            (x, log_density), (number, e) = carry, now
            mean, log_std = self.step(x, number)
            return (mean + jnp.exp(log_std) * e, log_density + normal(e) - log_std.sum(-1)), None

        begun = first, normal(first)
        (x, log_density), _ = jax.lax.scan(turn, begun, (jnp.arange(self.actor.steps), jnp.stack(others)))
        log_slope = 2 * (math.log(2) - x - jax.nn.softplus(-2 * x))  # log(1 - tanh(x)^2), which never rounds to log(0)
        return jnp.tanh(x), log_density - log_slope.sum(-1)

    def mode(self) -> Float[Array, "batch dimensions"]:
        """Return the end of the flow from 0, the middle of x_0, without noise."""
        x = jnp.zeros((len(self.features), self.actor.actions.outputs))
        x, _ = jax.lax.scan(lambda x, number: (self.step(x, number)[0], None), x, jnp.arange(self.actor.steps))
        return jnp.tanh(x)


def normal(noise: Float[Array, "*batch numbers"]) -> Float[Array, "*batch"]:
    """Compute the log-density of standard normal numbers."""
    return jnp.sum(-0.5 * noise**2 - 0.5 * math.log(2 * math.pi), axis=-1)


class Draws(NamedTuple):
    """The policy's inputs to its loss, in addition to observations."""

    noise: Float[Array, "batch draws"]
    done: Float[Array, "batch dimensions"]  # actions of the batch, in the unit box
    key: Key[Array, ""]


class SACFlow(SAC):
    """SAC with a flow as its policy (Zhang et al., 2025, arXiv 2509.25756), from scratch or after data.

    Without exploring it acts as the flow carries the middle of its noise. The entropy that it holds on to is that of
    whole rollouts.
    """

    example: ClassVar[str] = "forage train sac-flow Pendulum-v1 --steps 20k"
    ranges: ClassVar[Ranges] = {
        "flow_steps": Range(1),
        "noise_sizes": Range(1),
        "decoder_width": Range(4),
        "decoder_layers": Range(1),
        "cloning": Range(0),
    }
    choices: ClassVar[Choices] = {"flow": FLOWS}
    unused: ClassVar[Unused] = {
        "recycle_interval count_dormant": "SACFlow does not look for dormant units",
        "torso first_weights state_dependent_noise squash_deviation": (
            "A flow has networks and noise of its own",
            "take sac",
        ),
    }

    flow: str = equinox.field(static=True, default="gated")  # form of the velocity: gated (Flow-G), decoder (Flow-T)
    # or plain
    flow_steps: int = equinox.field(static=True, default=4)  # steps from noise to an action; more can follow a more
    # winding flow, at more computing
    hidden_sizes: tuple[int, ...] = equinox.field(static=True, default=(512,))  # layers of gate and candidate; critics
    # have value_sizes
    value_sizes: tuple[int, ...] = equinox.field(static=True, default=(256, 256))
    noise_sizes: tuple[int, ...] = equinox.field(static=True, default=(512, 512))  # layers of the network of sigma, of
    # a flow that is no decoder
    decoder_width: int = equinox.field(static=True, default=96)  # numbers in a token of the decoder
    decoder_layers: int = equinox.field(static=True, default=2)  # layers of the decoder
    target_entropy: float = 0.0  # entropy of a rollout that the temperature aims at, in nats for each dimension of the
    # action; larger explores more
    imitate: bool = equinox.field(static=True, default=False)  # the policy imitates the actions it learns from by flow
    # matching alone, and leaves the temperature as it is; for a run from data that another goes on from
    cloning: float = 0.0  # weight of the squared distance from the actions it learns from, beside SAC's loss; larger
    # stays nearer to them, and 0 is for learning from scratch

    def make_actor(self, key: Key[Array, ""], spec: Spec) -> FlowActor:
        return FlowActor(key, spec, self, self.style())

    def act(self, state: State, inputs: ActInputs) -> tuple[PyTree[Array], PyTree[Array], PyTree[Array]]:
        observation = apply_norm(state.norm, inputs.observation)
        rollouts = state.actor(jax.tree.map(lambda x: x[None], observation))
        noise = jax.random.normal(inputs.key, (state.actor.draws,)) if inputs.noise is None else inputs.noise
        action = rollouts.from_noise(noise[None])[0] if inputs.explore else rollouts.mode()
        return state.actor.actions.to_box(action[0]), inputs.hidden, ()

    def noise(self, spec: Spec) -> tuple[int, ...]:
        return ((self.flow_steps + 1) * Actions.from_space(spec.action_space).outputs,)

    def log_probability(self, state: State, observation: PyTree[Array], action: PyTree[Array]) -> Float[Array, " row"]:
        raise ForageError(
            "SACFlow knows how probable its rollouts are, and not the actions that they end in; take sac, whose policy "
            "is a Gaussian."
        )

    def learn(
        self, state: State, batch: Batch, clock: Clock, key: Key[Array, ""]
    ) -> tuple[State, Metrics, Float[Array, " batch"]]:
        now, action = self.transitions(state, batch)
        noise, next_noise = jax.random.normal(key, (2, len(action), state.actor.draws))
        draws = Draws(noise, action, jax.random.fold_in(key, 2))
        weight, keys = batch.weight * now.counts, self.critic_keys(key)
        return self.update(state, UpdateInputs(now, action, weight, draws, next_noise, keys))

    def improve(self, state: State, inputs: UpdateInputs) -> tuple[State, Metrics]:
        if not self.imitate:
            return super().improve(state, inputs)
        loss, gradient = jax.value_and_grad(self.matching_loss)(state.actor, inputs)
        return self.step_actor(state, gradient), {"actor_loss": loss, "entropy": jnp.float32(0)}

    def matching_loss(self, actor: FlowActor, inputs: UpdateInputs) -> Float[Array, ""]:
        """Compute the flow's matching error on the batch's actions, over the rows that count."""
        features = actor.torso.rows(inputs.now.observation)
        field = lambda x, time: actor.velocity(features, x, time)[0]  # noqa: E731
        ends = jnp.arctanh(jnp.clip(inputs.noise.done, -FAR, FAR))
        return weighted_mean(matching_error(field, ends, inputs.noise.key), inputs.now.counts)

    def actor_loss(
        self,
        actor: FlowActor,  # pyrefly: ignore[bad-override]
        state: State,
        inputs: UpdateInputs,
    ) -> tuple[Float[Array, ""], ActorReport]:
        """Compute SAC's loss by rollouts and `cloning` times the distance to the data. `inputs.noise`: `Draws`."""
        observation, draws = inputs.now.observation, inputs.noise
        action, log_density = actor(observation).from_noise(draws.noise)
        value = self.policy_value(state.critics, observation, action, inputs.keys.policy_q)
        distance = jnp.mean((action - draws.done) ** 2, axis=-1)
        each = jnp.exp(state.log_temperature) * log_density - value + self.cloning * distance
        loss = weighted_mean(each, inputs.now.counts)
        return loss, ActorReport(log_density, loss)
