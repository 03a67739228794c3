"""Dual value learning: implicit Q-learning with values fitted by the conjugate of an f-divergence.

Sikchi, Zheng, Zhang, Niekum (2023), "Dual RL: Unification and New Methods for Reinforcement and Imitation Learning",
arXiv 2302.08560, which calls it f-DVL. Each update is that of implicit Q-learning (`iql`), Q = min_i Q'_i(s, a) of the
target critics, but for

    value     optimism f*(Q - V(s)) - (1 - optimism) (Q - V(s))
    critics   sum_i huber(Q_i(s, a) - r - discount (1 - terminated) V(s')),  with the new V

where f* is, with u = Q - V,

    chi-square         max(u + u^2 / 4, 0)
    total-variation    max(u, 0)

and huber(u) is u^2 / 2 within 20 and linear beyond. V rises wherever an action of the data is worth more, at a rate
that grows with u for chi-square and is always the same for total variation, and falls everywhere at the rate
1 - optimism: towards 1 it becomes the value of the best action in the data. Of two actions that are equally likely both
find exactly the better one from an optimism of 2/3 on, chi-square as long as they are no more than 4 apart: below -4
its f* is above 0 once more, and V falls by actions that are far worse, so that it nears their mean where values differ
by tens. Total variation has no such limit, and scaled rewards (`--rewards scale`) keep within it. Extreme Q-learning
has an exponential in place of f*, which overflows. Formulas and numbers are those of the authors' program
(hari-sikchi/DVL: offline/critic.py, learner.py, train_offline.py), but that their V has layer normalisation; the
paper's tables could not be looked up. Their program can also average the value's loss over actions drawn uniformly,
which asks critics for what the data lack, and is not here.
"""

from __future__ import annotations

from typing import ClassVar

import equinox
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float

from forage.agents.offline.iql import IQL, CriticInputs
from forage.core.ports.needs import Choices
from forage.core.ranges import Range, Ranges
from forage.nn.critics import ActionValue, CriticReport, each_value

DIVERGENCES = ("chi-square", "total-variation")


class FDVL(IQL):
    """Dual value learning (Sikchi et al., 2023, arXiv 2302.08560), for discrete and bounded continuous actions.

    The authors' commands have `optimism` 1 with chi-square for locomotion, with uniform actions beside the data's, and
    0.8 with total variation for mazes; the latter is the default of both here, as without uniform actions nothing
    lowers V at 1.
    """

    example: ClassVar[str] = "forage train f-dvl Pendulum-v1 --data mixed.npz"
    fine_tunes: ClassVar[bool] = False
    ranges: ClassVar[Ranges] = {"optimism": Range(0, 1), "huber": Range(0, above=True)}
    choices: ClassVar[Choices] = {"divergence": DIVERGENCES}

    divergence: str = equinox.field(static=True, default="chi-square")  # whose conjugate fits V: chi-square, the
    # authors' for locomotion, or total-variation, theirs for mazes
    optimism: float = 0.8  # weight of rising to actions of more value against falling; nearer 1 is nearer the best
    # action of the data; the authors' for mazes
    expectile: float = 0.7  # no effect: V is fitted by the divergence
    huber: float = 20.0  # error of the critics from which on their loss is linear; smaller heeds outliers less; the
    # authors'
    batch_size: int = equinox.field(static=True, default=1024)  # transitions of an update, as in the authors' program

    def value_error(self, difference: Float[Array, " batch"]) -> Float[Array, " batch"]:
        """Compute the value's loss above, of Q - V."""
        return self.optimism * conjugate(difference, self.divergence) - (1 - self.optimism) * difference

    def critic_loss(self, critics: ActionValue, inputs: CriticInputs) -> tuple[Float[Array, ""], CriticReport]:
        """Sum over critics of mean(weight huber(Q - target))."""
        values, target = each_value(critics, inputs.observation, inputs.action), inputs.target
        loss = jnp.mean(inputs.weight * optax.huber_loss(values - target, delta=self.huber), axis=1).sum()
        return loss, CriticReport(jnp.abs(values - target).mean(0), loss, values.mean())


def conjugate(u: Float[Array, "*shape"], divergence: str) -> Float[Array, "*shape"]:
    """Compute f* of a divergence, as above: never below 0."""
    return jnp.maximum(u + u**2 / 4 if divergence == "chi-square" else u, 0.0)
