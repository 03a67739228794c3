"""GLAM: PPO of a language model that chooses among the actions of its environment by their log-probabilities."""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple

import equinox
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Key

from forage.agents.language.base import LanguageState
from forage.agents.language.descent import descend
from forage.agents.language.ppo_language import token_gae
from forage.core.ports import Metrics
from forage.core.ranges import Range, Ranges
from forage.core.spaces import Tokens
from forage.core.types import AGENT, Batch, Clock, Spec
from forage.nn.language import lora
from forage.nn.layers import MLP
from forage.nn.transformer import Transformer
from forage.ops.rows import merge_time
from forage.ops.sampling import token_value
from forage_papers.agents.language.kept import KeptState, keep
from forage_papers.agents.language.turns.choices import TextChooser, TextScores


class Heads(NamedTuple):
    """Networks on the hidden state of a context's last token."""

    value: MLP
    action: MLP | tuple[()]  # scores of texts, where those are not the model's own


class Turns(NamedTuple):
    """Turns to learn from."""

    context: Int[Array, "row time"]
    heat: Float[Array, "row 1"]  # temperature of the choice
    chosen: Int[Array, " row"]
    advantage: Float[Array, " row"]
    value: Float[Array, " row"]  # as it was before any step
    old: Float[Array, " row"]  # log-probability of the choice, likewise
    weight: Float[Array, " row"]


class GLAM(TextChooser):
    """Grounded language models (GLAM): online PPO over textual actions.

    The policy is a softmax over `actions` of their log-probabilities, a turn is one action, and

        L = -min(ratio A, clip(ratio) A) - entropy_coefficient H + value_coefficient max((V - G)^2, (V_clipped - G)^2)

    with advantages A along turns, G = A + V, and V a network of two hidden layers on the hidden state of the context's
    last token, which moves the language model too. With `heads` such a network scores the actions in place of the
    model's words, the paper's baseline.

    Carta, Romac, Wolf, Lamprier, Sigaud, Oudeyer (2023), "Grounding Large Language Models in Interactive Environments
    with Online Reinforcement Learning", arXiv 2302.02662, by the authors' program,
    github.com/flowersteam/Grounding_LLMs_with_online_RL (`experiments/train_language_agent.py`,
    `agents/ppo/llm_ppo_agent.py`, `configs/local_gpu_config.yaml`): its numbers, but for the step size, 1e-6 there for
    models of up to 780 million parameters, and 4 minibatches, 20 there. Differences: scores are sums of
    log-probabilities, as in the paper and in Lamorel's own scores (its module adds up logits, and 1 for each padding
    token); the model is causal (there FLAN-T5); it reads all that was said (there the last 3 observations); rollouts
    are of whole episodes (there 40 steps, with a value behind the last).
    """

    example: ClassVar[str] = "forage train glam text:guess --env.numbers 7 --actions 1,2,3,4,5,6,7"
    ranges: ClassVar[Ranges] = {
        **TextChooser.ranges,
        "discount": Range(0, 1),
        "gae_lambda": Range(0, 1),
        "clip": Range(0),
        "hidden_size": Range(1),
        "reward_scale": Range(0, above=True),
    }

    discount: float = 0.99
    gae_lambda: float = 0.99
    clip: float = 0.2
    value_coefficient: float = 0.5
    entropy_coefficient: float = 0.01
    max_gradient_norm: float = 0.5
    reward_scale: float = 20.0  # what rewards are multiplied by
    num_envs: int = equinox.field(static=True, default=32)
    epochs: int = equinox.field(static=True, default=4)
    minibatches: int = equinox.field(static=True, default=4)
    hidden_size: int = equinox.field(static=True, default=1024)  # units of both hidden layers of the value
    heads: bool = equinox.field(static=True, default=False)  # whether a network of its own scores the actions

    def init(self, key: Key[Array, ""], spec: Spec) -> KeptState:  # type: ignore[override]
        state = super().init(key, spec)
        width, size = self.base_model.architecture.width, self.hidden_size
        first, second = jax.random.split(key)
        value = MLP(first, (width, size, size, 1), "sigmoid")
        action = MLP(second, (width, size, size, len(self.actions)), "sigmoid") if self.heads else ()
        heads = Heads(value, action)
        inner = self.steps(1.0).init((self.split_frozen(state.network)[0], heads))
        return keep(state._replace(optimiser=inner), heads)

    def masters(self, state: Any) -> Transformer:
        exact = super().masters(state)
        return exact if isinstance(exact, Transformer) else exact[0]

    def log_policy(self, scored: TextScores, state: Any, temperature: Float[Array, "row 1"]) -> Array:
        if not isinstance(action := state.kept.action, tuple):
            scored = scored._replace(scores=action(scored.hidden))
        return super().log_policy(scored, state, temperature)

    def score_turns(
        self, network: Transformer, heads: Heads, state: Any, context: Array, heat: Array
    ) -> tuple[Array, Array]:
        """Return the log-probability of each text after each context, and the context's value."""
        scored = self.score_actions(network, state, context)
        value = heads.value(scored.hidden.astype(jnp.float32))[:, 0]
        return self.log_policy(scored, state._replace(kept=heads), heat), value

    def collect_turns(self, state: Any, batch: Batch) -> Turns:
        """Return the turns of a rollout with their advantages."""
        experience, turns = batch.experience, self.rollout_length
        context, action = merge_time((experience.observation["context"], experience.action))
        chosen, speaks = self.find_chosen(state, action), (context != Tokens.PAD).any(1)
        heat = merge_time(experience.policy_info.temperature)[:, :1]
        parts = jax.tree.map(lambda x: x.reshape(self.updates, -1, x.shape[1]), (context, heat))
        log_p, value = jax.lax.map(lambda part: self.score_turns(state.network, state.kept, state, *part), parts)
        old, value = token_value(log_p.reshape(len(context), -1), chosen), value.reshape(-1)

        def by_episode(x: Array) -> Array:
            return x.reshape(turns, -1).T

        paid = self.reward_scale * experience.reward.reshape(-1)
        paid, each, there = map(by_episode, (paid, value, speaks))
        advantage = token_gae(paid, jnp.zeros_like(paid), each, there, self.discount, self.gae_lambda).T.reshape(-1)
        weight = (speaks & (experience.source == AGENT).reshape(-1)).astype(jnp.float32)
        return jax.lax.stop_gradient(Turns(context, heat, chosen, advantage, value, old, weight))

    def learn(  # type: ignore[override]
        self, state: Any, batch: Batch, clock: Clock, key: Key[Array, ""]
    ) -> tuple[Any, Metrics, Float[Array, " env"]]:
        lesson = self.collect_turns(state, batch)
        learned, fixed = self.split_frozen(state.network)

        def loss(both: Any, part: Turns, first: Bool[Array, ""]) -> tuple[Float[Array, ""], Metrics]:
            return self.objective(lora.combine_adapters(both[0], fixed), both[1], state, part)

        steps, both = self.steps(self.rate(clock)), (learned, state.kept)
        both, inner, said = descend(loss, both, state.optimiser, steps, lesson, self.epochs, self.updates, key)
        state = state._replace(network=lora.combine_adapters(both[0], fixed), optimiser=inner, kept=both[1])
        size = jnp.abs(lesson.advantage).reshape(self.rollout_length, -1).mean(0)
        return state, said | {"reward": batch.experience.reward.sum(0).mean()}, size

    def objective(
        self, network: Transformer, heads: Heads, state: LanguageState, part: Turns
    ) -> tuple[Float[Array, ""], Metrics]:
        """Compute the loss of some turns."""
        log_p, value = self.score_turns(network, heads, state, part.context, part.heat)
        ratio = jnp.exp(token_value(log_p, part.chosen) - part.old)
        bounded = jnp.clip(ratio, 1 - self.clip, 1 + self.clip)
        target = part.advantage + part.value
        near = part.value + jnp.clip(value - part.value, -self.clip, self.clip)

        def mean(x: Array) -> Array:
            return (x * part.weight).sum() / jnp.maximum(part.weight.sum(), 1)

        policy = -mean(jnp.minimum(ratio * part.advantage, bounded * part.advantage))
        values = mean(jnp.maximum((value - target) ** 2, (near - target) ** 2))
        entropy = -mean((jnp.exp(log_p) * log_p).sum(-1))
        loss = policy - self.entropy_coefficient * entropy + self.value_coefficient * values
        moved = mean(jnp.abs(ratio - 1))
        return loss, {"policy_loss": policy, "value_loss": values, "entropy": entropy, "moved": moved}
