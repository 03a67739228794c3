"""Branches from influential steps of the last rollout's answers, together with answers to new prompts."""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple

import equinox
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Key, PyTree

from forage.core.ports import Branching, Environment, Starts
from forage.core.ports.needs import Needs
from forage.core.ranges import Range, Ranges
from forage.core.types import ForageError, Spec
from forage_papers.ops.tokens.influence import influential, mixed


class AnswerMark(NamedTuple):
    """The beginning of an answer."""

    rollout: Int[Array, ""]  # the number of its rollout
    prompt: Int[Array, ""]  # which of the run's prompts it answers; -1 for an environment that is to spare
    stem: Int[Array, ""]  # whose answer of the rollout before it goes on from; -1: it begins with the prompt
    length: Int[Array, ""]  # tokens that it goes on from


class AttentionState(NamedTuple):
    """The last rollout's answers, and the beginnings of the next."""

    key: Key[Array, ""]
    rollout: Int[Array, ""]
    prompts: Int[Array, ""]  # posed so far
    batch: Float[Array, ""]  # prompts that a rollout is to pose
    prompt: Int[Array, " env"]  # of the answers that begin next, as the mark has it
    stem: Int[Array, " env"]
    length: Int[Array, " env"]
    answer: Int[Array, "env time"]  # of the last rollout, padded behind
    began: Int[Array, " env"]  # which prompt they began with; -1 where they went on from another
    reward: Float[Array, " env"]
    influence: Float[Array, ""]  # mean over problems whose first answers were all right
    easy: Int[Array, ""]  # how many these were


class AttentionBranches(Starts):
    """New prompts, and branches of the last rollout's answers from steps that later ones attend to, in one rollout.

    `size` answers begin with each of some new prompts. In the next rollout, beside the next prompts, some of them are
    cut before `places` of their most influential steps (`forage/ops/tokens/influence.py`), and `times` others go on
    from each. So every update has one round of generation; first answers are one update older than those that go on.

    How many of a prompt's answers are branched follows from their mean reward z: ceil(size exp(-z)), the rarer of
    right and wrong ones before others, the hardest prompts first. Prompts whose answers were all right are branched
    only where the mean influence of their steps is above the mean of all such prompts so far. With R the answers of
    whole trees of the first number of prompts, and V the branched and branching answers of the last rollout whose
    prompt has right and wrong ones, the number of prompts becomes

        B <- inertia B + (1 - inertia) B R / V

    The environments stay as many as they are. What branches leave free is filled with new prompts, up to B; the rest
    is to spare, and nothing is learned from it.

    Source: Liu and others (2025), "Attention as a Compass", arXiv 2509.26628, as in the authors' program
    (RyanLiu112/AttnRL: recipe/attnrl/attnrl_core_algos.py, `build_root_nodes`; attnrl_ray_trainer_off.py,
    `_batch_sampler`), which rounds B up each time, generates as much as B asks for and chooses all-right answers in
    order. Its pages could be looked up in excerpts alone.
    """

    example: ClassVar[str] = (
        "forage train attn-rl text:countdown --env.branches true --starts attention-branches --starts.apart 2"
    )
    on_host: ClassVar[bool] = True
    repeats: ClassVar[bool] = True
    follows_steps: ClassVar[bool] = True
    ranges: ClassVar[Ranges] = {
        "size": Range(2),
        "places": Range(1),
        "times": Range(1),
        "top": Range(0, 1),
        "apart": Range(1),
        "inertia": Range(0, 1),
    }
    needs: ClassVar[Needs] = Needs(
        provides="max_answer_tokens",
        single_turn=True,
        same_task=True,
        reason="Branches go on from the first tokens of an answer of the rollout before, in one turn",
        instead="use text:addition --env.branches true or the like, without tools and --tasks",
    )

    size: int = equinox.field(static=True, default=6)  # answers that begin with a prompt, as published
    places: int = equinox.field(static=True, default=2)  # steps of an answer that others go on from, as published
    times: int = equinox.field(static=True, default=2)  # answers that go on from each of them, as published
    top: float = 0.2  # share of an answer's steps, those of greatest influence, that are branched at, as published
    apart: int = equinox.field(static=True, default=1)  # tokens between two places at least; 512 of 8,192 published
    inertia: float = 0.9  # share of the number of prompts that stays from one rollout to the next, as published

    @property
    def group(self) -> int:
        return self.size

    @property
    def branching(self) -> Branching:
        return Branching(self.places * self.times, True, late=True)

    def whole(self) -> int:
        """Return the number of answers to a prompt, branches included."""
        return self.size * (1 + self.places * self.times)

    def init(self, key: Key[Array, ""], environment: Environment, spec: Spec, num_envs: int) -> AttentionState:
        prompts = num_envs // self.whole()
        if not prompts:
            raise ForageError(
                f"A prompt has {self.size} answers and {self.places * self.times} that go on from each, "
                f"{self.whole()} in all; give num_envs={self.whole()} or more, not {num_envs}."
            )
        group = jnp.arange(num_envs) // self.size
        prompt = jnp.where(group < prompts, group, -1).astype(jnp.int32)
        none, nothing = jnp.full(num_envs, -1, jnp.int32), jnp.zeros(num_envs, jnp.int32)
        answer = jnp.zeros((num_envs, getattr(environment, "max_answer_tokens", 0)), jnp.int32)
        zero, posed = jnp.int32(0), jnp.int32(prompts)
        reward, mean = jnp.zeros(num_envs), jnp.float32(0)
        return AttentionState(
            key, zero, posed, jnp.float32(prompts), prompt, none, nothing, answer, none, reward, mean, zero
        )

    def begin(
        self, state: AttentionState, environment: Environment, key: Key[Array, ""], index: Int[Array, ""]
    ) -> tuple[Any, PyTree[Array], AnswerMark]:
        """Begin with a new prompt or with the first tokens of an earlier answer.

        All environments begin at once, so the start of number `index` is one of the environment `index % env`.
        """
        place = index % len(state.answer)
        prompt, stem, length = state.prompt[place], state.stem[place], state.length[place]
        ticket, seen = environment.reset(jax.random.fold_in(state.key, jnp.maximum(prompt, 0)))
        kept = jnp.where(jnp.arange(state.answer.shape[1]) < length, state.answer[jnp.maximum(stem, 0)], 0)
        return ticket._replace(prefix=kept), seen, AnswerMark(state.rollout, prompt, stem, length)

    def on_step(
        self, state: AttentionState, action: Int[Array, "env time"], policy_info: Any, reward: Float[Array, " env"]
    ) -> AttentionState:
        """Keep the answers of a rollout, and choose the beginnings of the next."""
        influence = getattr(policy_info, "influence", None)
        if influence is None:
            raise ForageError("The agent does not say what its answers' steps attend to; use attn-rl.")
        first = (state.stem < 0) & (state.prompt >= 0)
        batch = self.next_num_prompts(state, reward)

        # The mean of each prompt's first answers, of reward and influence
        together = (state.prompt[:, None] == state.prompt) & first[:, None] & first
        count = jnp.maximum(together.sum(1), 1)
        solved = together @ reward / count
        step = influence >= 0
        attended = together @ (jnp.where(step, influence, 0).sum(1) / jnp.maximum(step.sum(1), 1)) / count

        # Prompts that were all right, and the mean influence of all of them so far
        easy = first & (solved >= 1)
        number = state.easy + (easy.sum() / self.size).astype(jnp.int32)
        before = state.influence * state.easy + jnp.where(easy, attended, 0).sum() / self.size
        mean = before / jnp.maximum(number, 1)

        key = jax.random.fold_in(jax.random.fold_in(state.key, 2**31 - 1), state.rollout)
        chosen = first & self.wanted(together, solved, reward, key) & ~(easy & (attended <= mean))
        priority = jnp.where(chosen, (2 - solved) * 100 + attended, -jnp.inf)
        stems = jnp.argsort(-priority)

        # Branches first, then new prompts
        envs, each = len(action), self.places * self.times
        branched = jnp.minimum(chosen.sum(), (envs - self.size) // each) * each
        places = jax.vmap(lambda one: influential(one, self.places, self.top, self.apart))(influence)
        slot = jnp.arange(envs)
        goes_on = slot < branched
        stem = jnp.where(goes_on, stems[slot // each], -1)
        length = jnp.where(goes_on, places[jnp.maximum(stem, 0), slot % each // self.times], 0)
        posed = jnp.minimum(jnp.maximum(jnp.round(batch), 1), (envs - branched) // self.size).astype(jnp.int32)
        group = (slot - branched) // self.size
        prompt = jnp.where(group < posed, state.prompts + group, -1)
        prompt = jnp.where(goes_on, state.prompt[jnp.maximum(stem, 0)], prompt)
        return AttentionState(
            state.key,
            state.rollout + 1,
            state.prompts + posed,
            batch,
            prompt.astype(jnp.int32),
            stem.astype(jnp.int32),
            length.astype(jnp.int32),
            action,
            jnp.where(first, state.prompt, -1),
            reward,
            mean,
            number,
        )

    def wanted(
        self,
        together: Bool[Array, "env env"],
        solved: Float[Array, " env"],
        reward: Float[Array, " env"],
        key: Key[Array, ""],
    ) -> Bool[Array, " env"]:
        """Return a mask of first answers to branch by the difficulty of their prompt: ceil(size exp(-z)) of each."""
        number = jnp.ceil(self.size * jnp.exp(-jnp.clip(solved, 0, 1)) - 1e-5)
        rare = jnp.where(solved >= 0.5, -reward, reward)
        order = jnp.argsort(jnp.argsort(jax.random.uniform(key, reward.shape)))  # ties are broken by chance
        ahead = (rare > rare[:, None]) | ((rare == rare[:, None]) & (order < order[:, None]))
        return (together & ahead).sum(1) < number

    def next_num_prompts(self, state: AttentionState, reward: Float[Array, " env"]) -> Float[Array, ""]:
        """Return the number of prompts in the next rollout, after the tree that this one completed."""
        goes_on = state.stem >= 0
        branched = (jnp.arange(len(goes_on))[:, None] == jnp.where(goes_on, state.stem, -1)).any(1)
        prompt = jnp.concatenate([state.began, state.prompt])
        valid = mixed(prompt, jnp.concatenate([state.reward, reward]), jnp.concatenate([branched, goes_on])).sum()
        full = len(goes_on) // self.whole() * self.whole()
        target = state.batch * full / jnp.maximum(valid, 1)
        after = self.inertia * state.batch + (1 - self.inertia) * target
        return jnp.where(state.rollout > 0, jnp.minimum(after, len(goes_on) // self.size), state.batch)
