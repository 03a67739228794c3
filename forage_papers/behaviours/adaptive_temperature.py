"""A temperature that holds the policy's entropy at that of the first rollout."""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Key, PyTree

from forage.core.ports import ActContext, Agent, Behaviour, Decision, HiddenState
from forage.core.ports.needs import Needs
from forage.core.ranges import Range, Ranges, check_order
from forage.core.spaces import Tokens
from forage.core.types import Clock, Experience, ForageError, Spec
from forage_papers.behaviours.temperature import written_at


class TemperatureState(NamedTuple):
    """State of the temperature's control."""

    temperature: Float[Array, ""]
    target: Float[Array, ""]  # entropy of the first rollout, in nats a token
    rollouts: Int[Array, ""]  # that were looked at


class AdaptiveTemperature(Behaviour):
    """After each rollout but the first, with its entropy H and the entropy H_1 of the first,

        T <- T (1 + T log(H* / H) / (log V + log log V)),      V tokens in the vocabulary
        H* = H_1 f(x),      f(x) = final + (1 - final) (1 + cos(pi p)) / 2

    where p goes from 0 to 1 over the last share `annealed` of the run, and is 0 before. Where the policy becomes surer
    than it was, it writes at a higher temperature, so that groups of answers stay as different as they were; at the end
    it may become surer by a little. H is the mean of -log pi over the tokens that were drawn, at the temperature that
    they were drawn at, which estimates the entropy without bias. The agent learns at the same temperature.

    Source: Liao, Xi, Chen, Leng, Hu, Zeng, Liu, Wan, 2025, "Enhancing Efficiency and Exploration in Reinforcement
    Learning for LLMs" (E3), arXiv 2505.18573, as in the authors' `temperature_scheduler.py`, whose numbers these are
    but for the bounds of the temperature, which are ours; the paper's pages could not be looked up. Not here: more
    answers to harder prompts.
    """

    example: ClassVar[str] = "forage train grpo text:countdown --behaviour adaptive-temperature"
    own_choices: ClassVar[str] = "the bounds of the temperature"
    ranges: ClassVar[Ranges] = {
        "annealed": Range(0, 1),
        "final": Range(0, 1, above=True),
        "lowest": Range(0, above=True),
        "highest": Range(0, above=True),
    }
    needs: ClassVar[Needs] = Needs(writes=True)

    annealed: float = 0.4  # share of the run, its last, in which the entropy that is held falls; 0: it stays
    final: float = 0.9  # the entropy that is held at the end, as a share of the first rollout's
    lowest: float = 0.1  # temperature that it never falls below
    highest: float = 5.0  # temperature that it never rises above

    def __check_init__(self):
        check_order(self, "lowest", "highest", equal=True)

    def check(self, agent: Agent, spec: Spec) -> None:
        temperature: Any = getattr(agent, "temperature", None)
        if isinstance(temperature, int | float) and temperature <= 0:
            raise ForageError("AdaptiveTemperature begins with the agent's temperature, which is 0; give one above 0.")

    def init(self, key: Key[Array, ""], agent: Agent, spec: Spec) -> TemperatureState:
        temperature: Any = getattr(agent, "temperature", 1.0)
        return TemperatureState(jnp.asarray(temperature, jnp.float32), jnp.zeros(()), jnp.int32(0))

    def act(
        self, state: TemperatureState, hidden: HiddenState, observation: PyTree[Array], moment: ActContext
    ) -> Decision:
        return written_at(state.temperature, hidden, observation, moment)

    def report(self, state: TemperatureState, rollout: Experience, moment: ActContext) -> TemperatureState:
        assert isinstance(moment.spec.action_space, Tokens)
        wrote = rollout.action != Tokens.PAD
        entropy = -jnp.sum(rollout.policy_info.log_probability * wrote) / jnp.maximum(wrote.sum(), 1)
        entropy = jnp.maximum(entropy, 1e-6)
        first = state.rollouts == 0
        target = jnp.where(first, entropy, state.target)
        vocabulary = moment.spec.action_space.vocabulary - 1
        moved = self.next_temperature(state.temperature, target * self.share(moment.clock), entropy, vocabulary)
        return TemperatureState(jnp.where(first, state.temperature, moved), target, state.rollouts + 1)

    def share(self, clock: Clock) -> Float[Array, ""]:
        """Return f(x), the factor of the first rollout's entropy."""
        past = clock.fraction - (1 - self.annealed)
        done = jnp.clip(past / jnp.maximum(self.annealed, 1e-9), 0.0, 1.0)
        return self.final + (1 - self.final) * (1 + jnp.cos(jnp.pi * done)) / 2

    def next_temperature(
        self, temperature: Float[Array, ""], target: Float[Array, ""], entropy: Float[Array, ""], vocabulary: int
    ) -> Float[Array, ""]:
        """Return the next temperature, of a policy over a vocabulary of three tokens or more."""
        scale = jnp.log(vocabulary) + jnp.log(jnp.log(vocabulary))
        following = temperature * (1 + temperature * jnp.log(target / entropy) / scale)
        return jnp.clip(following, self.lowest, self.highest)
