"""A bonus for answers that a language model reads as unlike the others of their group."""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple

import equinox
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key, PyTree

from forage.core.ports import Metrics
from forage.core.ranges import Range, Ranges
from forage.core.spaces import Tokens
from forage.core.types import Clock, Experience, Spec
from forage.nn.language.pretrained import PretrainedModel, make_pretrained
from forage.nn.transformer import Transformer
from forage.rewards.verifiers.base import TextRewards, at_the_end, lengths, with_bonus, wrote
from forage_papers.ops.tokens.novelty import leverage


class RepresentationState(NamedTuple):
    inner: Any
    network: Transformer  # as it was pretrained; it never learns


class Representation(TextRewards):
    """bonus_i = weight h_i' V^-1 h_i, V = ridge I + sum over the group of h_j h_j'.

    h_i is the mean of the last hidden states of the answer's tokens, in a model that stays as it was pretrained,
    through a sparse random projection to `size` numbers that is drawn anew for every rollout, less the mean of its
    group. A group without a right answer gets no bonus: it would teach to be wrong in many ways. The bonus is computed
    as the rollout comes in, and noted.

    The projection has entries 0 with probability 1 - p, and plus or minus 1 / sqrt(p size) else, p = 1 / sqrt(width)
    (Li, Hastie, Church, 2006, "Very Sparse Random Projections", as in scikit-learn).

    Source: Tuyls, Foster, Krishnamurthy, Ash, 2025, "Representation-Based Exploration for Language Models: From
    Test-Time to Post-Training" (RepExp), arXiv 2510.11686, as in the authors' `recipe/rep_exp` of verl, whose numbers
    these are; the paper's pages beyond the introduction could not be looked up.
    """

    example: ClassVar[str] = "forage train grpo text:countdown --rewards representation"
    ranges: ClassVar[Ranges] = {
        "weight": Range(0),
        "ridge": Range(0, above=True),
        "right": Range(),
        "size": Range(1),
        "group_size": Range(2),
    }

    model: str | PretrainedModel = equinox.field(
        default="forage", converter=make_pretrained
    )  # what reads the answers: the
    # model that the agent begins from, by name or directory
    weight: float = 0.01  # weight of the bonus, which is at most 1, beside the reward
    ridge: float = 0.01  # multiple of the identity in V; larger pays small differences less
    right: float = 1.0  # reward of an episode from which its answer counts as right
    size: int = equinox.field(static=True, default=32)  # numbers that an answer is read as; 128 for long answers
    group_size: int = equinox.field(static=True, default=8)  # answers to one prompt, side by side; the agent's

    @property
    def group(self) -> int:
        return self.group_size

    def check(self, spec: Spec) -> None:
        super().check(spec)
        assert isinstance(self.model, PretrainedModel)
        self.model.check_reads(spec, "Representation reads answers")

    def init(self, key: Key[Array, ""], spec: Spec, num_envs: int) -> RepresentationState:
        assert isinstance(self.model, PretrainedModel)
        return RepresentationState(self.inner.init(key, spec, num_envs), self.model.first())

    def example_info(self, spec: Spec) -> PyTree[Array]:
        return self.inner.example_info(spec), jnp.zeros(())

    def relabel(self, state: RepresentationState, experience: Experience) -> Experience:
        within, bonus = experience.rewards_info
        given = self.inner.relabel(state.inner, experience._replace(rewards_info=within))
        return with_bonus(given, self.weight * bonus)

    def learn(
        self, state: RepresentationState, rollout: Experience, clock: Clock, key: Key[Array, ""]
    ) -> tuple[RepresentationState, PyTree[Array], Metrics]:
        inner_key, own_key = jax.random.split(key)
        inner, within, metrics = self.inner.learn(state.inner, rollout, clock, inner_key)
        reward = self.inner.relabel(inner, rollout._replace(rewards_info=within)).reward.sum(0)
        features = self.mean_hidden(state.network, rollout) @ projection(
            own_key, state.network.architecture.width, self.size
        )
        bonus = jax.vmap(leverage, in_axes=(0, None))(features.reshape(-1, self.group_size, self.size), self.ridge)
        right = (reward >= self.right).reshape(-1, self.group_size).any(1, keepdims=True)
        bonus = at_the_end(rollout, jnp.where(right, bonus, 0.0).reshape(-1))
        state = state._replace(inner=inner)
        return state, (within, bonus), metrics | {"bonus": self.weight * bonus.sum(0).mean()}

    def mean_hidden(self, network: Transformer, experience: Experience) -> Float[Array, "env width"]:
        """Return the mean hidden state of the tokens that the policy wrote in each episode."""

        def turn(seen: tuple[Array, Array, Array]) -> Float[Array, "env width"]:
            context, action, written = seen
            whole = jnp.concatenate([context, action], axis=1)
            hidden = network.hidden_states(jnp.maximum(whole - 1, 0), whole != Tokens.PAD)[:, -action.shape[1] :]
            return jnp.sum(jnp.where(written[..., None], hidden.astype(jnp.float32), 0.0), axis=1)

        parts = experience.observation["context"], experience.action, wrote(experience)
        total = jax.lax.map(turn, parts).sum(0)
        return total / jnp.maximum(lengths(experience), 1)[:, None]

    def truncate(self, state: RepresentationState) -> RepresentationState:
        return state._replace(inner=self.inner.truncate(state.inner))


def projection(key: Key[Array, ""], width: int, size: int) -> Float[Array, "width size"]:
    """Draw a sparse random projection that keeps lengths in the mean."""
    share = 1 / width**0.5
    sign_key, there_key = jax.random.split(key)
    signs = jax.random.rademacher(sign_key, (width, size), jnp.float32)
    return jnp.where(jax.random.bernoulli(there_key, share, (width, size)), signs, 0.0) / (share * size) ** 0.5
