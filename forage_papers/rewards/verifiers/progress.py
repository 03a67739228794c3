"""Rewards of single turns by their contribution to the end."""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple

import equinox
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Key, PyTree

from forage.core.ports import Metrics
from forage.core.ranges import Range, Ranges
from forage.core.spaces import Tokens
from forage.core.types import Clock, Experience, ForageError, Spec
from forage.nn.language.generate import last_hidden
from forage.nn.language.pretrained import PretrainedModel, make_pretrained
from forage.nn.layers import MLP
from forage.nn.transformer import Transformer
from forage.ops.optimiser import Optimiser, adam
from forage.rewards.verifiers.base import TextRewards


class Estimator(equinox.Module):
    """A transformer that ends in one number a text."""

    trunk: Transformer
    head: MLP

    def __call__(
        self, context: Int[Array, "time env read"], action: Int[Array, "time env new"]
    ) -> Float[Array, "time env"]:
        """Return the contribution of each turn, of the last hidden state of its last token; 0 of turns that wait."""

        def turn(seen: tuple[Array, Array]) -> Float[Array, " env"]:
            whole = jnp.concatenate(seen, axis=1)
            there = whole != Tokens.PAD
            hidden = last_hidden(self.trunk.hidden_states(jnp.maximum(whole - 1, 0), there), there)
            return self.head(hidden.astype(jnp.float32))[:, 0]

        return jnp.where(acts(context), jax.lax.map(turn, (context, action)), 0.0)


class ProgressState(NamedTuple):
    inner: Any
    estimator: Estimator
    optimiser: tuple[Any, Any]  # of its trunk and its head
    ready: Bool[Array, ""]  # whether it is paid by what it says


class Progress(TextRewards):
    """SPA-RL: each turn's reward is a progress estimator's share of the outcome, plus a reward for a valid turn.

        r_t = share c_t + grounding g_t,    c_t = MLP(h_t),    g_t = [the turn could be carried out]

    h_t is the last hidden state of the turn's last token in a transformer that begins as the policy does and learns
    with the head, so that the contributions of an episode sum to its task's completion R, the reward that `inner` gives
    to the whole of it:

        loss = mean over episodes of (sum_t c_t - R)^2

    What `inner` gives is not paid itself, but for the first `warmup` steps, in which the estimator learns alone. A turn
    is carried out where the environment says so (`executed_mask`): of tools where all its calls could be made, of games
    where it was a move. Agents that tell turns apart learn from it: `ppo-language`, which pays each turn with its last
    token, and `archer`; to those that sum the rewards of an episode it is a noisy R.

    Source: Wang, Leong, Wang, Wang, Li, 2025, "SPA-RL: Reinforcing LLM Agents via Stepwise Progress Attribution", arXiv
    2505.20732, whose first page could be looked up, with reviews of its formulas, and the authors' program: `prm_model`
    (its head is one linear layer on the last logits, where the paper has an MLP on the last hidden state),
    `rl_data_org.py`, from which the grounding of 0.5 is. There the estimator learns first, from episodes of a policy
    that imitated an expert, and then stays; here it learns from each rollout, one step for each of `minibatches`.
    """

    example: ClassVar[str] = "forage train ppo-language text:guess --rewards progress"
    ranges: ClassVar[Ranges] = {
        "share": Range(0),
        "grounding": Range(0),
        "learning_rate": Range(0),
        "trunk_rate": Range(0),
        "warmup": Range(0),
        "hidden_size": Range(1),
        "minibatches": Range(1),
    }

    model: str | PretrainedModel = equinox.field(default="forage", converter=make_pretrained)  # what the estimator
    # begins as:
    # the model that the agent begins from, by name or directory
    share: float = 1.0  # weight of contributions
    grounding: float = 0.5  # what a turn that could be carried out is paid
    learning_rate: float = 1e-3  # step size of Adam for the head
    trunk_rate: float = 3e-5  # step size of Adam for the transformer below it, the policy's own; 0: it stays as it is
    warmup: int = equinox.field(static=True, default=1280)  # steps of a seed before contributions are paid
    hidden_size: int = equinox.field(static=True, default=64)  # units of the head
    minibatches: int = equinox.field(static=True, default=4)  # equal parts of a rollout, each for a step of learning

    def check(self, spec: Spec) -> None:
        super().check(spec)
        if self.grounding and "executed" not in spec.info_names:
            raise ForageError(
                f"Progress pays for turns that could be carried out, and {spec.name} does not say which; use tools or "
                f"a game such as text:guess, or --rewards.grounding 0."
            )
        assert isinstance(self.model, PretrainedModel)
        self.model.check_reads(spec, "Progress reads turns")

    def init(self, key: Key[Array, ""], spec: Spec, num_envs: int) -> ProgressState:
        assert isinstance(self.model, PretrainedModel)
        if num_envs % self.minibatches:
            raise ForageError(
                f"{num_envs} conversations cannot be cut into {self.minibatches} equal parts; give "
                f"--rewards.minibatches that divide them."
            )
        inner_key, head_key = jax.random.split(key)
        trunk = jax.tree.map(jnp.copy, self.model.first(jnp.float32))
        # Contributions begin near 0, as a sum of random ones would be far from any completion.
        head = MLP(head_key, (trunk.architecture.width, self.hidden_size, 1), last_gain=0.01)
        steps = self.steps()
        optimiser = steps[0].init(trunk), steps[1].init(head)
        inner = self.inner.init(inner_key, spec, num_envs)
        return ProgressState(inner, Estimator(trunk, head), optimiser, jnp.bool_(self.warmup == 0))

    def steps(self) -> tuple[Optimiser, Optimiser]:
        """Return the optimisers of the trunk and the head."""
        return adam(self.trunk_rate, max_gradient_norm=1.0), adam(self.learning_rate, max_gradient_norm=1.0)

    def example_info(self, spec: Spec) -> PyTree[Array]:
        return self.inner.example_info(spec), jnp.zeros(())

    def relabel(self, state: ProgressState, experience: Experience) -> Experience:
        within, contribution = experience.rewards_info
        given = self.inner.relabel(state.inner, experience._replace(rewards_info=within))
        paid = self.share * contribution + self.grounding * executed_mask(experience)
        return given._replace(reward=jnp.where(state.ready, paid, given.reward))

    def learn(
        self, state: ProgressState, rollout: Experience, clock: Clock, key: Key[Array, ""]
    ) -> tuple[ProgressState, PyTree[Array], Metrics]:
        inner, within, metrics = self.inner.learn(state.inner, rollout, clock, key)
        completion = self.inner.relabel(inner, rollout._replace(rewards_info=within)).reward.sum(0)
        context, action = rollout.observation["context"], rollout.action
        trunk_steps, head_steps = self.steps()

        def split_parts(x: Array) -> Array:
            """Return parts of the episodes, leaves `part time env ...`."""
            return jnp.moveaxis(x.reshape(len(x), self.minibatches, -1, *x.shape[2:]), 1, 0)

        def loss(estimator: Estimator, context: Array, action: Array, completion: Array) -> Float[Array, ""]:
            return jnp.mean((estimator(context, action).sum(0) - completion) ** 2)

        def step(carry: tuple[Estimator, Any], part: tuple[Array, Array, Array]) -> tuple[Any, Array]:
            estimator, (of_trunk, of_head) = carry
            error, slope = jax.value_and_grad(loss)(estimator, *part)
            trunk, of_trunk = trunk_steps.step(slope.trunk, of_trunk, estimator.trunk)
            head, of_head = head_steps.step(slope.head, of_head, estimator.head)
            return (Estimator(trunk, head), (of_trunk, of_head)), error

        parts = split_parts(context), split_parts(action), completion.reshape(self.minibatches, -1)
        (estimator, optimiser), errors = jax.lax.scan(step, (state.estimator, state.optimiser), parts)
        contribution = estimator(context, action)
        state = ProgressState(inner, estimator, optimiser, clock.steps >= self.warmup)
        said = {
            "progress_loss": errors.mean(),
            "completion": completion.mean(),
            "attributed": contribution.sum(0).mean(),
            "grounded": executed_mask(rollout).sum() / jnp.maximum(acts(context).sum(), 1),
        }
        return state, (within, contribution), metrics | said

    def truncate(self, state: ProgressState) -> ProgressState:
        return state._replace(inner=self.inner.truncate(state.inner))


def acts(context: Int[Array, "time env read"]) -> Bool[Array, "time env"]:
    """Return a mask of the turns with a context to read, at which the policy writes."""
    return (context != Tokens.PAD).any(-1)


def executed_mask(experience: Experience) -> Float[Array, "time env"]:
    """Return 1 for turns that the environment reports as executed, else 0."""
    if "executed" not in experience.info:
        return jnp.zeros(experience.reward.shape)
    return jnp.where(acts(experience.observation["context"]), jnp.nan_to_num(experience.info["executed"]), 0.0)
