"""Answers that continue the first tokens of other answers: rollouts that are trees."""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple

import equinox
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Key, PyTree

from forage.core.ports import Branching, Environment, RolloutReport, Starts
from forage.core.ports.needs import Choices, Needs
from forage.core.ranges import Range, Ranges
from forage.core.types import Experience, ForageError, Spec

PLACES = ("improbable", "even", "random")


class TreeMark(NamedTuple):
    """The beginning of an answer in its tree."""

    prompt: Int[Array, ""]  # which of the run's prompts it answers
    depth: Int[Array, ""]  # 0: it begins with the prompt, j: with the j-th prefix of an earlier answer
    length: Int[Array, ""]  # tokens of that prefix


class BranchesState(NamedTuple):
    """The answers that branches continue."""

    key: Key[Array, ""]
    trees: Int[Array, ""]  # rollouts so far
    depth: Int[Array, ""]  # of the answers that begin next
    answer: Int[Array, "env time"]  # those that began with the prompt, padded behind
    length: Int[Array, "env prefix"]  # tokens of their prefixes, the shortest first
    stem: Any = ()  # of a relative: which answers branches go on from


class Branches(Starts):
    """Groups of `size` answers to one prompt, and then as many to each of `prefixes` first parts of one of them.

    A rollout of 1 + `prefixes` steps is a tree. In its first step a group answers a prompt. In each later step the
    group begins with a prefix of the group's first answer or, with `each`, each of it with a prefix of its own. All is
    written by one policy, as nothing is learned between. Where an answer has fewer places than prefixes, the missing
    ones have no tokens: the prompt is answered once more. The mark tells depth and length, and agents for trees
    (`vine-ppo`, `fr3e`, `tree-rl`) make advantages of it.

    Where an answer is cut, by `at`: before its most improbable tokens, in equal parts, or anywhere. As in the programs
    of FR3E and TreeRL the probability of the token that was drawn stands for the entropy at it. `after` allows only
    places behind certain tokens, such as those that end a step of reasoning; of more of them than prefixes, even parts
    are taken.

    Sources: Kazemnejad and others (2024), "VinePPO", arXiv 2410.01679 (McGill-NLP/VinePPO, branches at each step of
    reasoning); Zheng and others (2025), "First Return, Entropy-Eliciting Explore", arXiv 2507.07017 (Zheng0428/FR3E:
    verl/trainer/ppo/ray_trainer.py, `separate_responses_str_by_prob`); Hou and others (2025), "TreeRL", arXiv
    2506.11902 (THUDM/TreeRL: entropy_chain_local_manager.py). Unlike in the last, tokens behind the word "answer" may
    be branched at, and a tree has one round of branches. The papers' own pages could not be looked up.
    """

    example: ClassVar[str] = "forage train fr3e text:countdown --env.branches true"
    adapts: ClassVar[bool] = True
    on_host: ClassVar[bool] = True
    repeats: ClassVar[bool] = True
    follows_steps: ClassVar[bool] = True
    ranges: ClassVar[Ranges] = {"size": Range(1), "prefixes": Range(1), "times": Range(1), "after": Range(0)}
    needs: ClassVar[Needs] = Needs(
        provides="max_answer_tokens",
        single_turn=True,
        reason="Branches go on from the first tokens of an answer in one turn",
        instead="use text:addition --env.branches true or the like, without tools",
    )
    choices: ClassVar[Choices] = {"at": PLACES}

    size: int = equinox.field(static=True, default=8)  # answers that share a prompt, and then a prefix
    prefixes: int = equinox.field(static=True, default=4)  # steps of a rollout that go on from prefixes; FR3E has 4
    times: int = equinox.field(static=True, default=1)  # steps that go on from the same prefix; TreeRL has 2
    each: bool = equinox.field(static=True, default=False)  # every answer goes on from its own prefix, not the first's
    at: str = equinox.field(static=True, default="improbable")  # where answers are cut: improbable, even or random
    after: tuple[int, ...] = equinox.field(static=True, default=())  # they are cut behind these tokens alone, by the
    # tokenizer's numbers; none: anywhere

    def __check_init__(self):
        if self.prefixes % self.times:
            raise ForageError(
                f"{self.prefixes} prefixes cannot be used {self.times} times each; give a multiple of {self.times}."
            )

    @property
    def group(self) -> int:
        return self.size

    @property
    def branching(self) -> Branching:
        return Branching(self.prefixes, self.each)

    @property
    def per_stem(self) -> int:
        """Return the number of prefixes of one answer."""
        return self.prefixes

    def init(self, key: Key[Array, ""], environment: Environment, spec: Spec, num_envs: int) -> BranchesState:
        if num_envs % self.size:
            raise ForageError(f"{num_envs} environments are not whole groups of {self.size}; give a multiple.")
        answer = jnp.zeros((num_envs, getattr(environment, "max_answer_tokens", 0)), jnp.int32)
        return BranchesState(key, jnp.int32(0), jnp.int32(0), answer, jnp.zeros((num_envs, self.per_stem), jnp.int32))

    def begin(
        self, state: BranchesState, environment: Environment, key: Key[Array, ""], index: Int[Array, ""]
    ) -> tuple[Any, PyTree[Array], TreeMark]:
        """Begin with the prompt of the group, and in later steps with a prefix as well.

        All environments begin at once, so the start of number `index` is one of the environment `index % env`.
        """
        place = index % len(state.answer)
        prompt = state.trees * (len(state.answer) // self.size) + place // self.size
        ticket, seen = environment.reset(jax.random.fold_in(state.key, prompt))
        stem, prefix = self.stem(state, place)
        length = jnp.where(prefix >= 0, state.length[stem, jnp.maximum(prefix, 0)], 0)
        kept = jnp.where(jnp.arange(state.answer.shape[1]) < length, state.answer[stem], 0)
        return ticket._replace(prefix=kept), seen, TreeMark(prompt, state.depth, length)

    def stem(self, state: BranchesState, place: Int[Array, ""]) -> tuple[Int[Array, ""], Int[Array, ""]]:
        """Return the answer that an environment continues, and the number of its prefix, below 0 for none."""
        return (place if self.each else place // self.size * self.size), state.depth - 1

    def on_step(
        self, state: BranchesState, action: Int[Array, "env time"], policy_info: Any, reward: Float[Array, " env"]
    ) -> BranchesState:
        """Keep the answers that began with a prompt, and cut them."""
        key = jax.random.fold_in(jax.random.fold_in(state.key, 2**31 - 1), state.trees)
        log_probability = getattr(policy_info, "log_probability", None)
        if log_probability is None and self.at == "improbable":
            raise ForageError("The agent does not say how probable its tokens were; use --starts.at even or random.")
        keys = jax.random.split(key, len(action))
        log_probability = jnp.zeros(action.shape) if log_probability is None else log_probability
        lengths = jax.vmap(self.cuts)(action, log_probability, keys)
        first = state.depth == 0
        depth = (state.depth + 1) % (self.prefixes + 1)
        return BranchesState(
            state.key,
            state.trees + (depth == 0),
            depth,
            jnp.where(first, action, state.answer),
            jnp.where(first, lengths, state.length),
            state.stem,
        )

    def cuts(
        self, answer: Int[Array, " time"], log_probability: Float[Array, " time"], key: Key[Array, ""]
    ) -> Int[Array, " prefix"]:
        """Return the length of each prefix of an answer, the shortest first; 0 for missing places."""
        wrote = answer > 0
        allowed = wrote.at[0].set(False)  # a prefix has at least one token, and leaves at least one
        if self.after:
            before = jnp.roll(answer, 1)
            allowed &= jnp.isin(before, jnp.asarray(self.after, jnp.int32) + 1)
        number = self.per_stem // self.times
        score = jnp.where(allowed, self.score(allowed, log_probability, key, number), -jnp.inf)
        best, place = jax.lax.top_k(score, min(number, len(answer)))
        place = jnp.pad(jnp.where(jnp.isfinite(best), place, 0), (0, number - len(place)))
        return jnp.repeat(jnp.sort(place), self.times).astype(jnp.int32)

    def score(
        self, allowed: Bool[Array, " time"], log_probability: Float[Array, " time"], key: Key[Array, ""], number: int
    ) -> Float[Array, " time"]:
        """Return the score of each place for branching."""
        if self.at == "improbable":
            return -log_probability
        if self.at == "random":
            return jax.random.uniform(key, allowed.shape)
        rank, count = jnp.cumsum(allowed) - 1, allowed.sum()
        wanted = (jnp.arange(1, number + 1) * count) // (number + 1)
        wanted = jnp.where(count <= number, jnp.arange(number), wanted)
        return jnp.isin(rank, wanted).astype(jnp.float32) + jnp.where(jnp.isin(rank, wanted), 0.0, -jnp.inf)

    def report(self, state: BranchesState, rollout: Experience, review: RolloutReport) -> BranchesState:
        """Begin the next tree. After a failure the last one is incomplete; agents then skip it."""
        whole = rollout.reward.shape[0] == self.prefixes + 1
        return state._replace(depth=jnp.int32(0)) if whole else state
