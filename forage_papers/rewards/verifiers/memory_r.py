"""Memory-R+: bonuses for answers near those that were right before, and far from those that were wrong."""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple

import equinox
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key, PyTree

from forage.core.ports import Metrics
from forage.core.ports.needs import Needs
from forage.core.ranges import Range, Ranges
from forage.core.spaces import Tokens
from forage.core.types import Clock, Experience, Spec
from forage.nn.language.pretrained import PretrainedModel, make_pretrained
from forage.nn.transformer import Transformer
from forage.rewards.verifiers.base import TextRewards, at_the_end, with_bonus
from forage_papers.ops.tokens.neighbours import (
    AnswerMemory,
    Window,
    centre_distance,
    empty_memory,
    novelty,
    put_answer,
    scale_number,
)


class Recollection(NamedTuple):
    """Answers of one kind, right or wrong, and the latest distances to them."""

    memory: AnswerMemory
    window: Window


class MemoryRState(NamedTuple):
    """State of the bonuses: the network that reads answers, and both memories."""

    inner: Any
    network: Transformer  # as it was pretrained; it never learns
    right: Recollection
    wrong: Recollection


class MemoryR(TextRewards):
    """bonus = exploit (1 - scaled distance to the centre of right answers) + explore (scaled distance to wrong ones).

    Prompts and answers are embedded by a model that stays as it was pretrained, as means of its last hidden states. Of
    the nearest prompt in memory, the centre is the mean of the right answers kept, and the distance to wrong ones 1
    minus the greatest cosine with one of them. Answers are judged one after another: a right one is first put among the
    right ones, a wrong one among the wrong ones. Both numbers are brought to 0 to 1 by the least and the greatest of
    the last `history`. Exploring begins once `begins` prompts with wrong answers are known.

    Le, Do, Nguyen, Venkatesh (2025), "Reasoning Under 1 Billion: Memory-Augmented Reinforcement Learning for Large
    Language Models", arXiv 2504.02273, as in the authors' `rewards/ir_knn_st.py` and `run_gsm8k.py` (thaihungle/
    Memory-R): weights 1, one nearest prompt, 100 numbers and 500 prompts before exploring are those of Memory-R+;
    `--rewards.explore 0` is Memory-R. There the embedding is a sentence transformer's, of the reasoning alone, and the
    memory holds 10,000 prompts with 100 answers. The paper's own pages could not be looked up.
    """

    example: ClassVar[str] = "forage train grpo text:countdown --rewards memory-r --rewards.begins 32"
    ranges: ClassVar[Ranges] = {
        "exploit": Range(0),
        "explore": Range(0),
        "right": Range(),
        "begins": Range(0),
        "prompts": Range(1),
        "answers": Range(1),
        "history": Range(2),
    }
    needs: ClassVar[Needs] = Needs(observations="text", single_turn=True)

    model: str | PretrainedModel = equinox.field(
        default="forage", converter=make_pretrained
    )  # what reads prompts and answers, by name or directory
    exploit: float = 1.0  # weight of being near right answers
    explore: float = 1.0  # weight of being far from wrong answers
    right: float = 1.0  # reward of an episode from which its answer counts as right
    begins: int = equinox.field(static=True, default=500)  # prompts with wrong answers that are known before exploring
    prompts: int = equinox.field(static=True, default=512)  # prompts that each memory holds
    answers: int = equinox.field(static=True, default=16)  # newest answers kept of each prompt
    history: int = equinox.field(static=True, default=100)  # latest numbers that others are scaled by

    def check(self, spec: Spec) -> None:
        super().check(spec)
        assert isinstance(self.model, PretrainedModel)
        self.model.check_reads(spec, "MemoryR reads answers")

    def init(self, key: Key[Array, ""], spec: Spec, num_envs: int) -> MemoryRState:
        assert isinstance(self.model, PretrainedModel)
        network = self.model.first()
        width = network.architecture.width

        def begin() -> Recollection:
            window = Window(jnp.zeros(self.history), jnp.int32(0))
            return Recollection(empty_memory(self.prompts, self.answers, width), window)

        return MemoryRState(self.inner.init(key, spec, num_envs), network, begin(), begin())

    def example_info(self, spec: Spec) -> PyTree[Array]:
        return self.inner.example_info(spec), jnp.zeros(())

    def relabel(self, state: MemoryRState, experience: Experience) -> Experience:
        within, bonus = experience.rewards_info
        given = self.inner.relabel(state.inner, experience._replace(rewards_info=within))
        return with_bonus(given, bonus)

    def learn(
        self, state: MemoryRState, rollout: Experience, clock: Clock, key: Key[Array, ""]
    ) -> tuple[MemoryRState, PyTree[Array], Metrics]:
        inner, within, metrics = self.inner.learn(state.inner, rollout, clock, key)
        right = self.inner.relabel(inner, rollout._replace(rewards_info=within)).reward.sum(0) >= self.right
        embedded = self.embed(state.network, rollout)

        def judge(kept: tuple[Recollection, Recollection], one: tuple[Array, Array, Array]) -> tuple[Any, Array]:
            good, bad, known = (*kept, one[2])
            prompt, answer = one[:2]
            good_memory = put_answer(good.memory, prompt, answer, known)
            bad_memory = put_answer(bad.memory, prompt, answer, ~known)
            apart = centre_distance(good_memory, prompt, answer)
            window, near = scale_number(good.window, apart, apart, good_memory.known > 0)
            ready = bad_memory.known >= max(self.begins, 1)
            other, new = scale_number(bad.window, novelty(bad_memory, prompt, answer), 0.0, ready)
            paid = self.exploit * (1 - near) + jnp.where(ready, self.explore * new, 0.0)
            return (Recollection(good_memory, window), Recollection(bad_memory, other)), paid

        (good, bad), bonus = jax.lax.scan(judge, (state.right, state.wrong), (*embedded, right))
        said = {"bonus": bonus.mean(), "remembered": good.memory.known}
        state = state._replace(inner=inner, right=good, wrong=bad)
        return state, (within, at_the_end(rollout, bonus)), metrics | said

    def embed(
        self, network: Transformer, experience: Experience
    ) -> tuple[Float[Array, "env width"], Float[Array, "env width"]]:
        """Return the mean hidden states of prompts and of answers."""
        context, action = experience.observation["context"][0], experience.action[0]

        def mean(tokens: Array) -> Float[Array, "env width"]:
            there = tokens != Tokens.PAD
            hidden = network.hidden_states(jnp.maximum(tokens - 1, 0), there).astype(jnp.float32)
            return jnp.sum(jnp.where(there[..., None], hidden, 0.0), 1) / jnp.maximum(there.sum(1), 1)[:, None]

        return mean(context), mean(action)

    def truncate(self, state: MemoryRState) -> MemoryRState:
        return state._replace(inner=self.inner.truncate(state.inner))
