"""Parameter noise: each episode is played by a slightly perturbed copy of the learner's network."""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple

import gymnasium
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Key, PyTree

from forage.core import prng
from forage.core.ports import ActContext, ActInputs, Agent, Behaviour, Decision, HiddenState
from forage.core.ports.needs import Needs
from forage.core.ranges import Range, Ranges
from forage.core.spaces import describe_space, split_mask
from forage.core.types import Experience, ForageError, Spec
from forage.nn.batch_norm import BatchNorm
from forage.nn.distributions import Actions, Categorical
from forage.nn.layers import Conv
from forage.ops.every import run_if

SCALES = (1e-5, 10.0)
"""Bounds of the scale, in case no scale gives the target distance."""


class ParameterNoiseState(NamedTuple):
    scale: Float[Array, ""]  # standard deviation of the noise
    half_range: Float[Array, " dimensions"]  # of continuous actions; none where actions are choices


class PerturbedState(NamedTuple):
    """The behaviour's memory within an episode."""

    network: Any  # that plays it
    goes_on: Bool[Array, ""]  # it was made at a step before


class ParameterNoise(Behaviour):
    """Acting with other weights in each episode: network + scale N(0, 1), drawn as the episode begins.

    It acts as in evaluation, without noise on its actions, so it does the same whenever it sees the same. What is drawn
    stays for the episode while the agent goes on learning. Convolutions and batch normalisation are left alone.

    After each rollout the scale is multiplied or divided by `adaptation`: up where the distance d between the network's
    actions and those of another copy with noise, on what was just seen, is less than is wanted, else down.

        choices      d = KL(p, p'),  wanted: -log(1 - epsilon + epsilon / actions)
        continuous   d = sqrt(mean (a - a')^2) in the unit box,  wanted: `distance`

    p is the softmax of action values, or the policy of an agent that has probabilities; the wanted KL is that of an
    epsilon-greedy policy from the greedy one, with epsilon(t) = start + (end - start) * min(1, t / (fraction * T)).

    Source: Plappert, Houthooft, Dhariwal, Sidor, Chen, Chen, Asfour, Abbeel, Andrychowicz, 2017, "Parameter Space Noise
    for Exploration", arXiv 1706.01905. There networks have layer normalisation, so that all layers are disturbed alike,
    d is taken on a batch of replayed states, and DQN has a policy head for Atari: none of these is here. On the paper's
    chain small networks did worse with normalisation than without. The authors' code adapts at every step for choices,
    and from an initial scale of 0.2 every 50 steps for continuous actions. Its DQN program for Atari adapts every 50
    steps too, when first published to a fixed KL of 0.05, takes 1 % random actions beside the noise, and draws another
    network after 10,000 steps without a reset.
    """

    example: ClassVar[str] = "forage train dqn MountainCar-v0 --behaviour parameter-noise"
    ranges: ClassVar[Ranges] = {
        "initial_scale": Range(0, above=True),
        "distance": Range(0, above=True),
        "adaptation": Range(1, above=True),
    }
    needs: ClassVar[Needs] = Needs(off_policy=True, without_memory=True)

    start: float = 1.0  # epsilon at first, whose distance from greedy is wanted of choices
    end: float = 0.05  # epsilon after `fraction` of the run
    fraction: float = 0.1  # share of the run until epsilon reaches `end`
    distance: float = 0.2  # root mean square distance wanted between continuous actions, in the unit box; larger
    # explores more
    initial_scale: float = 0.01  # standard deviation of the noise on weights before it is adapted
    adaptation: float = 1.01  # factor of the scale after each rollout; larger adapts faster, and less steadily

    def check(self, agent: Agent, spec: Spec) -> None:
        name, space = type(agent).__name__, spec.action_space
        knows = type(agent).action_values is not Agent.action_values
        knows = knows or type(agent).probabilities is not Agent.probabilities
        if not (isinstance(space, gymnasium.spaces.Box) or (isinstance(space, gymnasium.spaces.Discrete) and knows)):
            raise ForageError(
                f"Parameter noise compares continuous actions, action values or probabilities, and {name} has none of "
                f"them for {describe_space(space)}; dqn, sac-discrete, sac and td3 do, each in its action space."
            )
        if not hasattr(jax.eval_shape(lambda: agent.init(prng.key(0), spec)), agent.acting):
            raise ForageError(
                f"Parameter noise changes the weights of the network that acts, and {name} acts without one; dqn has "
                f"one."
            )

    def init(self, key: Key[Array, ""], agent: Agent, spec: Spec) -> ParameterNoiseState:
        actions = Actions.from_space(spec.action_space)
        return ParameterNoiseState(jnp.asarray(self.initial_scale, jnp.float32), jnp.array(actions.half_range))

    def init_hidden(self, agent: Agent, spec: Spec) -> PerturbedState:
        network = getattr(jax.eval_shape(lambda: agent.init(prng.key(0), spec)), agent.acting)
        blank = jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), network)
        return PerturbedState(blank, jnp.bool_(False))

    def act(
        self, state: ParameterNoiseState, hidden: HiddenState, observation: PyTree[Array], moment: ActContext
    ) -> Decision:
        agent, agent_state = moment.agent, moment.agent_state
        act_key, noise_key = jax.random.split(moment.key)
        before: PerturbedState = hidden.behaviour
        now = getattr(agent_state, agent.acting)
        network = run_if(~before.goes_on, lambda _: perturb(now, state.scale, noise_key), before.network)
        player = agent_state._replace(**{agent.acting: network})
        action, memory, policy_info = agent.act(player, ActInputs(hidden.agent, observation, act_key, explore=False))
        return Decision(action, HiddenState(memory, PerturbedState(network, jnp.bool_(True))), policy_info)

    def report(self, state: ParameterNoiseState, rollout: Experience, moment: ActContext) -> ParameterNoiseState:
        agent, agent_state = moment.agent, moment.agent_state
        noise_key, act_key = jax.random.split(moment.key)
        network = perturb(getattr(agent_state, agent.acting), state.scale, noise_key)
        other = agent_state._replace(**{agent.acting: network})
        if state.half_range.size:

            def square(observation: PyTree[Array]) -> Float[Array, ""]:
                inputs = ActInputs((), observation, act_key, explore=False)
                a, b = (agent.act(who, inputs)[0] for who in (agent_state, other))
                return jnp.mean(((a - b).reshape(-1) / state.half_range) ** 2)

            distance = jnp.sqrt(jnp.mean(jax.vmap(jax.vmap(square))(rollout.observation), where=rollout.counts))
            wanted = jnp.asarray(self.distance)
        else:

            def divergence(observation: PyTree[Array]) -> tuple[Float[Array, ""], Array]:
                p, q = (log_policy(agent, who, observation) for who in (agent_state, other))
                return jnp.sum(jnp.exp(p) * (p - q)), p

            kl, policies = jax.vmap(jax.vmap(divergence))(rollout.observation)
            distance = jnp.mean(kl, where=rollout.counts)
            epsilon = moment.clock.anneal(self.start, self.end, self.fraction)
            wanted = -jnp.log(1 - epsilon + epsilon / policies.shape[-1])
        scale = jnp.where(distance < wanted, state.scale * self.adaptation, state.scale / self.adaptation)
        return state._replace(scale=jnp.clip(scale, *SCALES))


def perturb(network: Any, scale: Float[Array, ""], key: Key[Array, ""]) -> Any:
    """Return the network with normal noise on all its weights but those of convolutions and batch normalisation."""
    kept = Conv, BatchNorm
    parts, structure = jax.tree.flatten(network, is_leaf=lambda part: isinstance(part, kept))
    keys = jax.random.split(key, len(parts))
    noisy = [
        part if isinstance(part, kept) else part + scale * jax.random.normal(k, part.shape)
        for part, k in zip(parts, keys, strict=True)
    ]
    return jax.tree.unflatten(structure, noisy)


def log_policy(agent: Agent, agent_state: Any, observation: PyTree[Array]) -> Float[Array, " actions"]:
    """Return the log-probabilities of actions: the agent's own, or the softmax of its action values."""
    values = agent.action_values(agent_state, (), observation)
    if values is None:
        return jnp.log(jnp.maximum(agent.probabilities(agent_state, observation, explore=True), 1e-12))
    return Categorical.from_logits(values, split_mask(observation)[1]).log_probabilities
