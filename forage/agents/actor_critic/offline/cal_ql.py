"""Calibrated Q-learning: conservative values that are never pushed below the returns in the data set.

Nakamoto, Zhai, Singh, Mark, Ma, Finn, Kumar, Levine (2023), "Cal-QL: Calibrated Offline RL Pre-Training for Efficient
Online Fine-Tuning", arXiv 2303.05479. Conservative Q-learning (`offline/cql.py`) in whose gap the value of an
action b that was drawn from the policy, at s or at s', counts as

    max(Q_i(s, b), G(s)),   G(s) the discounted sum of the data set's rewards from s to the end of the episode

so a policy's value is lowered no further than the value of the one that was recorded. Uniform actions are pushed down
as before. The update and the numbers are those of the authors' program (nakamotoo/Cal-QL: JaxCQL/conservative_sac.py;
its mazes: scripts/run_antmaze.sh, which learns the multiplier, from e on); there the multiplier's goal is
`conservatism` times 0.8, and here `target_gap` is that product. Its configuration says an entropy target of 0, for
which conservative_sac_main.py takes -1 a dimension. The paper's tables could not be looked up.

All networks take their step from what they were before the update; here the policy follows critics that have already
moved. The temperature goes down -log alpha (log pi + H), here -alpha (log pi + H). A learned number, -1 at first, is
added to the policy's log-deviations, and another, 1 at first, multiplies them; weights begin orthogonal, last ones a
hundred times smaller, and biases at zero: so a policy begins with means of about 0 and deviations of about 0.37. Here
all begin as in SAC.

G begins at 0 after the last reward of an episode, whether that ended or was cut (replay_buffer.py). There are two
exceptions. In their sparse tasks every step of an episode that only fails has f / (1 - discount), f being the reward of
failing: `failure_reward`. In the kitchen, whose rewards have no end (their branch dev/add-kitchen, `infinite_horizon`),
the last reward goes on for ever: `endless`. Their reader of D4RL leaves out the last transition before a time limit,
which is counted here.

Online the agent goes on with the same losses, as there (conservative_sac_main.py, whose weight of the gap stays what it
was unless `cql_min_q_weight_online` says another): half of each batch is from the data (`mixing_ratio` 0.5 in both
scripts), the other half from its own episodes that are over, with their returns (sampler.py). They make as many updates
as an episode has steps once it is over; here one follows each step.
"""

from __future__ import annotations

from typing import ClassVar

import equinox
import jax.numpy as jnp
from jaxtyping import Array, Float

from forage.agents.actor_critic.offline.cql import CQL, SampledActions
from forage.core.ranges import Range, Ranges
from forage.core.types import Experience, ReturnRule


class CalQL(CQL):
    """CQL bounded by the data set's returns (Nakamoto et al., 2023, arXiv 2303.05479), from a data set, and online.

    With `--from RUN --memory mixed --memory.data FILE` it goes on online, bounded by its own returns too.

    Returns are of the rewards that are learned from, and computed once, when the data set is opened or an episode is
    over.
    """

    first_log_weight: ClassVar[float] = 1.0
    ranges: ClassVar[Ranges] = {"failure_reward": Range()}
    example: ClassVar[str] = "forage train cal-ql Pendulum-v1 --data mixed.npz"

    backup_samples: int = equinox.field(static=True, default=10)  # actions of the policy at s' of which the target
    # takes the best; the authors'
    target_gap: float = 4.0  # gap, times conservatism, that the multiplier aims at; larger is less conservative; the
    # authors' for mazes
    endless: bool = equinox.field(static=True, default=False)  # after a truncation the last reward goes on for ever in
    # returns; for tasks without an end, the authors' for kitchens
    failure_reward: float | None = equinox.field(static=True, default=None)  # reward, as it is learned from, of each
    # step that fails: returns of an episode that has no other go on for ever; the authors' for sparse rewards, such as
    # -1
    hidden_sizes: tuple[int, ...] = equinox.field(static=True, default=(256, 256))
    value_sizes: tuple[int, ...] = equinox.field(static=True, default=(256, 256, 256, 256))

    @property
    def returns(self) -> bool:
        return True

    @property
    def return_rule(self) -> ReturnRule:
        return ReturnRule(self.endless, self.failure_reward)

    def gap_values(
        self, values: Float[Array, "critic batch samples"], sampled: SampledActions, now: Experience
    ) -> Float[Array, "critic batch samples"]:
        """Return the values, those of the policy's actions no lower than the data set's return."""
        assert not isinstance(now.return_to_go, tuple)
        return jnp.where(sampled.own, jnp.maximum(values, now.return_to_go[:, None]), values)
