"""The last rollout, with right answers of teachers in the place of some of each group that failed as a whole."""

from __future__ import annotations

import dataclasses
import itertools
import os
from collections import Counter
from typing import Any, ClassVar

import equinox
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from forage.core.ports import ActContext, Environment
from forage.core.ports.needs import Choices, Needs
from forage.core.ranges import Range, Ranges, check_order
from forage.core.spaces import Tokens
from forage.core.text import named
from forage.core.text.tokenizer import Tokenizer
from forage.core.types import Batch, Experience, ForageError, Replay, Spec
from forage.memory.dataset import DataSet
from forage.memory.mixed import text_paths
from forage.memory.rollout import LastRollout
from forage.ops.rows import concatenate_rows, merge_time

CHOICES = ("likelihood", "random")
"""Rules of choosing among teachers' answers to one prompt."""
OPEN, CLOSE = "<answer>", "</answer>"
VERIFIED = {"format": 1.0, "truth": 1.0}  # what a verifier said of a right answer, which data sets do not tell


class Teachers(LastRollout):
    """AMPO's guidance: teachers' answers replace some of a group only if all its answers are wrong.

    The last `replaced` answers of such a group give their places to right ones of the teachers, those that the student
    comprehends best: with the teacher's answer y = (reasoning, <answer> a </answer>) a score of

        mean over the tokens of a of pi(token | prompt, reasoning and what stands before it)

    which is how likely the student finds the right answer once it has read the reasoning, at temperature 1. Where there
    are fewer teachers' answers, fewer are replaced. `chosen` random draws them instead, as the paper's ablation does.

    Each file is what one teacher wrote, with the verdict of the environment's verifier: `forage data record` writes it
    of a run, for the same environment and options. Of each file the first `each` right answers to a beginning are kept.
    Beginnings are the same where all tokens of the first context are, so it needs problems that come again, as with
    `--env.problems 64`, and records that meet them. An answer's place is found with the environment's `tokenizer`.
    Where a right answer can be written in several ways, it is the teacher's own that is scored. Files are not copied
    into checkpoints; a run resumes with these alone.

    Source: Yuan, Ding, Bin, Shao, Cai, Song, Yang, Shen, 2025, "More Than One Teacher: Adaptive Multi-Guidance Policy
    Optimization for Diverse Exploration" (AMPO), arXiv 2510.02227, as in the authors' `mix_off_policy_rollout`,
    `ProbRewardManager` and `train_ampo.sh`, whose numbers these are: 2 answers of 4 teachers, one each; `random` places
    of the group there, the last ones here, which is the same of answers drawn alike. The paper's formulas could not be
    looked up.
    """

    example: ClassVar[str] = (
        "forage train ampo text:countdown --env.problems 64 --memory teachers --memory.data one.npz,other.npz"
    )
    joint: ClassVar[bool] = False
    ranges: ClassVar[Ranges] = {"right": Range(), "replaced": Range(1), "each": Range(1), "group_size": Range(2)}
    needs: ClassVar[Needs] = Needs(
        observations="text",
        ability="likelihood",
        reason="learns from its own answers alone, and Teachers replaces some",
        instead="use ampo",
    )
    choices: ClassVar[Choices] = {"chosen": CHOICES}

    data: tuple[str, ...] = equinox.field(
        static=True, converter=text_paths
    )  # files of what teachers wrote, one for each,
    # as `forage data record` writes them, with commas between them
    sha256: tuple[str, ...] = equinox.field(
        static=True, converter=text_paths, default=()
    )  # hash of each file; taken when a
    # run begins
    right: float = 1.0  # reward of an episode from which its answer counts as right, a teacher's and one's own
    replaced: int = equinox.field(static=True, default=2)  # answers of a group that are replaced, at most
    each: int = equinox.field(static=True, default=1)  # right answers to a beginning that are kept of each teacher
    chosen: str = equinox.field(static=True, default="likelihood")  # by likelihood of the right answer, or random
    tokenizer: str = equinox.field(static=True, default=named.FORAGE)  # the environment's: `forage`, or a directory
    group_size: int = equinox.field(static=True, default=8)  # answers to one prompt, side by side; the agent's

    def __check_init__(self):
        if not self.data or not all(self.data):
            raise ForageError("Teachers needs what teachers wrote; name its files with --memory.data ONE,OTHER.")
        if len(self.sha256) not in (0, len(self.data)):
            raise ForageError(
                f"Teachers has {len(self.data)} files and {len(self.sha256)} hashes; leave out the hashes, which are "
                f"taken when a run begins."
            )
        check_order(self, "replaced", "group_size")

    @property
    def group(self) -> int:
        return self.group_size

    @property
    def sets(self) -> list[DataSet]:
        """Return each file as a data set."""
        return [DataSet(file, sha) for file, sha in zip(self.data, self.sha256 or [""] * len(self.data), strict=True)]

    def with_hashes(self) -> Teachers:
        """Return the same with absolute paths and the files' hashes, added if missing."""
        found = [one.with_hashes() for one in self.sets]
        return dataclasses.replace(self, data=[one.file for one in found], sha256=[one.sha256 for one in found])

    def relocate(self, path: str | os.PathLike[str]) -> Teachers:
        """Return the same with its files at other places, with commas between them."""
        places = os.fspath(path).split(",")
        if len(places) != len(self.data):
            raise ForageError(f"This run has {len(self.data)} teachers, and --data names {len(places)}; name all.")
        return dataclasses.replace(self, data=places)

    def load(self, spec: Spec) -> OpenedTeachers:
        """Read the files. Raise `ForageError` if one is missing, changed, of another environment, or of no use."""
        kept = [right_ones(one.file, one.whole(spec), spec, self.right, self.each) for one in self.sets]
        episodes: Experience = concatenate_rows(*kept)
        words = named.tokenizer(self.tokenizer)
        writes = spec.action_space
        if not isinstance(writes, Tokens) or words.vocabulary + 1 != writes.vocabulary:
            raise ForageError(
                f"The tokenizer {self.tokenizer} is not that of {spec.name}; name that one with --memory.tokenizer."
            )
        answer = np.stack([answer_of(words, action) for action in np.asarray(episodes.action)])
        if self.chosen == "likelihood" and not answer.any((1, 2)).all():
            raise ForageError(
                f"What teachers wrote in {spec.name} has no {OPEN}, whose likelihood tells which to choose; use "
                f"--memory.chosen random."
            )
        begins = Counter(begin.tobytes() for begin in np.asarray(episodes.observation["context"][:, 0]))
        fields = {field.name: getattr(self, field.name) for field in dataclasses.fields(Teachers)}
        return OpenedTeachers(**fields, episodes=episodes, answer=jnp.asarray(answer), most=max(begins.values()))

    def init(
        self, example: Experience, num_envs: int, rollout_length: int, spec: Spec, environment: Environment | None
    ) -> tuple[()]:
        if jax.tree.leaves(example.rewards_info):
            raise ForageError(
                "The rewards part learns from what it notes of each transition, and what teachers wrote has no such "
                "notes; use --rewards environment or format."
            )
        return ()

    def sample(self, state: Experience, size: int, length: int, moment: ActContext) -> Batch:
        raise ForageError(f"{', '.join(self.data)} has not been read; Teachers.load(spec) does it.")


class OpenedTeachers(Teachers):
    """Teachers after their files were read."""

    episodes: Experience = None  # type: ignore[assignment]  # leaves `episode time ...`
    answer: Bool[Array, "episode time new"] = None  # type: ignore[assignment]  # tokens between the tags
    most: int = equinox.field(static=True, default=1)  # episodes with one beginning

    def sample(self, state: Experience, size: int, length: int, moment: ActContext) -> Batch:
        rollout, num_envs = state, state.reward.shape[1]
        failed = (rollout.reward.sum(0).reshape(-1, self.group_size) < self.right).all(1)

        # Teachers' answers to each group's prompt, the best first
        begins = rollout.observation["context"][0, :: self.group_size]
        same = (begins[:, None] == self.episodes.observation["context"][None, :, 0]).all(-1)
        there, candidates = jax.lax.top_k(same.astype(jnp.int32), self.most)
        score = jnp.where(there > 0, self.scores(candidates, moment), -1.0)
        best, order = jax.lax.top_k(score, min(self.replaced, self.most))
        chosen = jnp.take_along_axis(candidates, order, 1).reshape(-1)
        used = ((best >= 0) & failed[:, None]).reshape(-1)

        # In the places of a group's last answers
        count = order.shape[1]
        first = jnp.arange(0, num_envs, self.group_size)[:, None] + self.group_size - count
        place = (first + jnp.arange(count)).reshape(-1)

        def put(x: Array, given: Any) -> Array:
            where = used.reshape(1, -1, *(1,) * (x.ndim - 2))
            return x.at[:, place].set(jnp.where(where, given, x[:, place]))

        def put_kept(x: Array, kept: Array) -> Array:
            return put(x, jnp.moveaxis(kept[chosen], 0, 1))

        names = ("observation", "action", "reward", "next_observation", "terminated", "truncated", "source")
        mixed = {name: jax.tree.map(put_kept, getattr(rollout, name), getattr(self.episodes, name)) for name in names}
        last = (jnp.arange(len(rollout.reward)) == len(rollout.reward) - 1)[:, None]
        mixed["info"] = {
            name: put(value, jnp.where(last, VERIFIED.get(name, jnp.nan), jnp.nan))
            for name, value in rollout.info.items()
        }
        mixed["policy_info"] = jax.tree.map(lambda x: put(x, jnp.zeros((), x.dtype)), rollout.policy_info)
        replay = Replay(jnp.zeros(num_envs, bool), jnp.full(num_envs, jnp.nan))
        return Batch(rollout._replace(**mixed), jnp.ones(num_envs), jnp.arange(num_envs), replay)

    def scores(self, candidates: Int[Array, "group most"], moment: ActContext) -> Float[Array, "group most"]:
        """Return the student's comprehension of episodes, from 0 to 1, or random numbers."""
        if self.chosen == "random":
            return jax.random.uniform(moment.key, candidates.shape)
        agent: Any = moment.agent
        several = candidates.reshape(-1)
        read, wrote = jax.tree.map(lambda x: x[several], (self.episodes.observation, self.episodes.action))
        rows = merge_time((read, wrote))
        found = agent.likelihood(moment.agent_state, *rows).reshape(wrote.shape)
        mask = self.answer[several]
        mean = jnp.where(mask, found, 0.0).sum((1, 2)) / jnp.maximum(mask.sum((1, 2)), 1)
        return mean.reshape(candidates.shape)


def right_ones(file: str, data: Experience, spec: Spec, right: float, each: int) -> Experience:
    """Return the first `each` right episodes to every beginning, leaves `episode time ...`."""
    turns, ended = spec.horizon or 1, np.asarray(data.ended)
    ends = [end for end in np.flatnonzero(np.asarray(data.terminated)) if end + 1 >= turns]
    whole = [np.arange(end - turns + 1, end + 1) for end in ends if not ended[end - turns + 1 : end].any()]
    reward, context = np.asarray(data.reward), np.asarray(data.observation["context"])
    met: Counter[bytes] = Counter()
    kept = []
    for steps in whole:
        begin = context[steps[0]].tobytes()
        if reward[steps].sum() >= right and met[begin] < each:
            met[begin] += 1
            kept.append(steps)
    if not kept:
        raise ForageError(
            f"{file} has no episode with a reward of {right:g} or more, so it teaches nothing; record another teacher."
        )
    return jax.tree.map(lambda x: x[np.stack(kept)], data)


def answer_of(words: Tokenizer, action: Int[np.ndarray, "time new"]) -> Bool[np.ndarray, "time new"]:
    """Return a mask of the tokens between the last pair of tags; a token counts if one of its characters does."""
    mask = np.zeros(action.shape, bool)
    for turn, row in reversed(list(enumerate(action))):
        tokens = [int(token) - 1 for token in row if token != Tokens.PAD]
        text = words.decode(tokens, special=True)
        close = text.rfind(CLOSE)
        begin = text.rfind(OPEN, 0, close) + len(OPEN) if close >= 0 else 0
        if begin < len(OPEN):
            continue
        reach = [len(words.decode(tokens[:count], special=True)) for count in range(len(tokens) + 1)]
        mask[turn, : len(tokens)] = [a < close and b > begin for a, b in itertools.pairwise(reach)]
        break
    return mask
