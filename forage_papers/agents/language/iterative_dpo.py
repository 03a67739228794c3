"""Online preference optimisation in iterations, and with answers and prompts that are chosen to be compared."""

from __future__ import annotations

from typing import ClassVar

import equinox
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Key

from forage.agents.language.base import AnswerRows, LanguageState, fit_vocabulary, warmth
from forage.core.ports import Metrics
from forage.core.ports.needs import Choices, Needs, Unused
from forage.core.ranges import Range, Ranges
from forage.core.types import Batch, Clock, ForageError, Spec
from forage.nn.transformer import Transformer
from forage.ops.sampling import log_probability
from forage.ops.tokens.masks import sequence_sum
from forage_papers.agents.language.online_dpo import OnlineDPO
from forage_papers.ops.tokens.borda import Guess, borda_acquisition

ONE_BY_ONE = ("dpo", "robust-dpo", "ipo", "hinge")
"""Losses of pairs that compare with a reference."""


class IterativeDPO(OnlineDPO):
    """Online iterative preference learning (RLHF workflow): DPO whose writer and reference are renewed.

    An iteration has `interval` rollouts. In each, the policy as it was at the iteration's beginning writes the
    answers (behaviour `reference-policy`) and is the reference of DPO's loss, whose pairs are the best and the worst of
    each group; then the policy that has learned takes its place. The judge may be a run of `reward-model`
    (`--rewards RUN`), learned from data beforehand.

    Dong, Xiong, Pang, Wang, Zhao, Zhou, Jiang, Sahoo, Xiong, Zhang (2024), "RLHF Workflow: From Reward Modeling to
    Online RLHF", arXiv 2405.07863, as in the authors' `run_loop2.sh` and `dpo_iteration/run_dpo.py`
    (RLHFlow/Online-RLHF), whose 4 answers, best against worst, 2 passes and label smoothing of 0.1 these are. There an
    iteration has 20,000 prompts, whose answers are all written before the first update; here the passes are over each
    rollout. Their other rules of pairing (`choose_type`) are not here. The paper's own pages could not be looked up.
    """

    example: ClassVar[str] = "forage train iterative-dpo text:addition --env.level 2"
    usual_behaviour: ClassVar[str] = "reference-policy"
    needed_behaviour: ClassVar[str] = "reference-policy"
    ranges: ClassVar[Ranges] = {**OnlineDPO.ranges, "interval": Range(1)}
    choices: ClassVar[Choices] = {"preference": ONE_BY_ONE}
    unused: ClassVar[Unused] = {
        "rank": "IterativeDPO renews its reference, which adapters share with the policy",
        "optimism likelihood": "IterativeDPO has losses of pairs beside a reference",
    }

    interval: int = equinox.field(static=True, default=50)  # rollouts of an iteration
    group_size: int = equinox.field(static=True, default=4)
    epochs: int = equinox.field(static=True, default=2)
    smoothing: float = 0.1

    @property
    def firsts(self) -> int:
        return self.group_size

    def learn(
        self, state: LanguageState, batch: Batch, clock: Clock, key: Key[Array, ""]
    ) -> tuple[LanguageState, Metrics, Float[Array, " env"]]:
        state, metrics, size = super().learn(state, batch, clock, key)
        rollout = clock.steps // (self.num_envs * self.rollout_length)
        renew = rollout % self.interval == 0
        newest = jax.tree.map(lambda new, old: jnp.where(renew, new, old), state.network, state.reference)
        return state._replace(reference=newest), metrics | {"iteration": 1 + (rollout - 1) // self.interval}, size


class BordaDPO(OnlineDPO):
    """Active preference optimisation (AE-Borda-DPO): DPO of the answers whose comparison informs most.

    The first policy writes half of each group (behaviour `reference-policy`), the policy the other half. Of a rollout's
    prompts the `share` with the greatest worth of comparing (`ops/tokens/borda`) is learned from: for each, DPO's loss
    of the pair of the policy's answer with the greatest optimistic Borda score and one of the first policy's, as their
    rewards judge them. The policy's uncertainty is the deviation of an answer's log-probability over `samples` draws of
    dropout on its last hidden states.

    Mehta, Belakaria, Das, Neopane, Dai, Bogunovic, Engelhardt, Ermon, Schneider, Neiswanger (2023), "Sample Efficient
    Preference Alignment in LLMs via Active Exploration", arXiv 2312.00267, as in the authors' `data_selection.py`,
    `utils.py` and `config.yaml` (belakaria/active-llm-alignment): 5 answers of each, 5 draws, dropout 0.05, optimism 2,
    a third of the prompts and beta 0.1 are those. There the first policy's own log-probability of its answers is taken
    from the policy, which cancels it, and the policy learns with dropout, too; here it is the first policy's, and
    dropout only measures. The judge there is a language model. The paper's own pages could not be looked up.
    """

    example: ClassVar[str] = "forage train borda-dpo text:addition --env.level 2"
    usual_behaviour: ClassVar[str] = "reference-policy"
    needed_behaviour: ClassVar[str] = "reference-policy"
    ranges: ClassVar[Ranges] = {
        **OnlineDPO.ranges,
        "share": Range(0, 1, above=True),
        "dropout": Range(0, 1, above=True, below=True),
        "bound": Range(0),
        "samples": Range(2),
    }
    needs: ClassVar[Needs] = Needs(single_turn=True)
    choices: ClassVar[Choices] = {"preference": ONE_BY_ONE}
    unused: ClassVar[Unused] = {"optimism likelihood": "BordaDPO has losses of pairs beside a reference"}

    bound: float = 2.0  # deviations that a log-probability may be off by; larger explores more
    dropout: float = 0.05  # share of a hidden state's numbers that a draw leaves out
    share: float = equinox.field(static=True, default=1 / 3)  # share of the prompts whose answers are compared
    samples: int = equinox.field(static=True, default=5)  # draws of dropout
    group_size: int = equinox.field(static=True, default=10)
    num_envs: int = equinox.field(static=True, default=60)

    @property
    def firsts(self) -> int:
        return self.group_size // 2

    @property
    def pairs(self) -> int:
        return max(round(self.num_envs // self.group_size * self.share), 1)

    def check(self, spec: Spec) -> None:
        super().check(spec)
        if self.group_size % 2:
            raise ForageError(
                f"BordaDPO compares two halves of a group; give an even group_size, not {self.group_size}."
            )

    def choose_pairs(
        self, state: LanguageState, rows: AnswerRows, reward: Float[Array, "group answer"], key: Key[Array, ""]
    ) -> tuple[Int[Array, "pair 2"], Bool[Array, " pair"]]:
        flat = jax.tree.map(lambda x: x[:, 0], rows)
        reference = self.reference_of(state)
        assert reference is not None
        first = sequence_sum(self.score_tokens(reference, state, flat)[0], flat.wrote)
        drawn = self.draw_scores(state.network, state, flat, key)
        told = (x.reshape(-1, 2, self.firsts) for x in (drawn.mean(0), drawn.std(0, ddof=1), first))
        other, own = (Guess(*parts) for parts in zip(*[(x[:, 0], x[:, 1]) for x in told], strict=True))
        worth, best = borda_acquisition(own, other, self.bound, 0.1 if self.beta is None else self.beta)
        _, prompt = jax.lax.top_k(worth, self.pairs)
        given = jax.random.randint(jax.random.fold_in(key, 1), (self.pairs,), 0, self.firsts)
        mine = prompt * self.group_size + self.firsts + best[prompt]
        theirs = prompt * self.group_size + given
        paid = reward.reshape(-1)
        won = paid[mine] >= paid[theirs]
        chosen = jnp.where(won[:, None], jnp.stack([mine, theirs], 1), jnp.stack([theirs, mine], 1))
        return chosen, paid[mine] != paid[theirs]

    def draw_scores(
        self, network: Transformer, state: LanguageState, rows: AnswerRows, key: Key[Array, ""]
    ) -> Float[Array, "sample row"]:
        """Return the log-probability of each answer under draws of dropout on its last hidden states."""
        hidden = self.compute_hidden(network, rows)
        token, known = rows.tokens[:, -rows.wrote.shape[1] :], fit_vocabulary(state.known, network)
        heat = jnp.broadcast_to(warmth(rows), (*token.shape, 1))

        def draw(key: Key[Array, ""]) -> Float[Array, " row"]:
            kept = jax.random.bernoulli(key, 1 - self.dropout, hidden.shape)
            thinned = jnp.where(kept, hidden / (1 - self.dropout), 0.0).astype(hidden.dtype)

            def score(hidden: Array, token: Array, heat: Array) -> Array:
                return log_probability(network.logits(hidden), token, self.sampling(heat), known)

            each = self.map_logits(score, network.architecture.vocabulary, (thinned, token, heat))
            return sequence_sum(each, rows.wrote)

        return jax.lax.map(draw, jax.random.split(key, self.samples))
