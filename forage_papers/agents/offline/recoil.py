"""ReCOIL: imitation from demonstrations and mixed data, without a discriminator.

Sikchi, Zheng, Zhang, Niekum (2023), "Dual RL: Unification and New Methods for Reinforcement and Imitation Learning",
arXiv 2302.08560 ("relaxed coverage for off-policy imitation learning"). The data set holds whatever somebody did, and
as many demonstrations are drawn beside each batch of it. With Q = min_i Q'_i(s, a) of the target critics, V_max the
field `most_value` and c = (1 - discount) V_max, each update takes one step down each of, in this order,

    value     (exp(z - m) - z exp(-m) - exp(-m)),  z = min((Q - V(s)) / temperature, most_exponent)
    policy    -min(exp(beta (Q - V(s))), most_weight) log pi(a|s),  with the new V
    critics   sum_i (Q_i(s, a) - y)^2 / 2 over the data + (Q_i(s~, a~) - V_max)^2 / 2 over the demonstrations
              y = -c + discount V(s'),  with the new V;  -V_max in place of V(s') where the step terminates

and moves the targets Q' a little towards the critics; m, held fixed, is the largest z of the batch, but -1 at least.
So what was demonstrated is worth V_max, and another action of the data what it leads to, less a step's cost: near
-V_max where it never leads to anything that was demonstrated. V is temperature log mean exp(Q / temperature) over the
data's actions (Gumbel regression, as in extreme Q-learning), near the best of them where the temperature is small.
Rewards play no part. Only actions of the data set are cloned, so it should hold the demonstrations, too
(`forage data convert A B BOTH` joins files), as in the authors' experiments.

This is the authors' program of ReCOIL (critic_imitate.py, train_offline_imitate.py), whose values at both ends, 200 and
-200, and cost of 2 are those of LS-IQ; the paper's own objective has no such targets. How that program weighs the
policy's loss, and the paper's tables, could not be looked up: the policy's loss is that of implicit Q-learning. There m
is the largest z of data and demonstrations, which alters the size of the gradient alone.
"""

from __future__ import annotations

from typing import ClassVar

import equinox
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from forage.agents.offline.iql import IQL, CriticInputs
from forage.core.ports.needs import Needs, Unused
from forage.core.ranges import Range, Ranges
from forage.core.types import Experience
from forage.data.demonstrations import Demonstrations, as_demonstrations
from forage.nn.critics import ActionValue, CriticReport, each_value


class ReCOIL(IQL):
    """Imitation from demonstrations and mixed data (Sikchi et al., 2023, arXiv 2302.08560)."""

    example: ClassVar[str] = "forage train recoil Pendulum-v1 --data mixed.npz --demonstrations expert.npz"
    own_choices: ClassVar[str] = "the policy's loss, that of implicit Q-learning"
    fine_tunes: ClassVar[bool] = False
    ranges: ClassVar[Ranges] = {
        "temperature": Range(0, above=True),
        "most_exponent": Range(0, above=True),
        "most_value": Range(0, above=True),
    }
    needs: ClassVar[Needs] = Needs(given="demonstrations")
    unused: ClassVar[Unused] = {"normalise_observation": "ReCOIL reads demonstrations as they were recorded"}

    demonstrations: str | Demonstrations | None = equinox.field(
        default=None, converter=as_demonstrations
    )  # file of the transitions to imitate, as forage data record writes it
    temperature: float = 1.0  # how much V averages over the data's actions; larger is more pessimistic and steadier:
    # the authors' default, and where values diverge they try 2.5, 5, 10 and 20
    most_exponent: float = 7.0  # bound of (Q - V) / temperature in the value's loss; smaller is steadier; the authors'
    most_value: float = 200.0  # value of what was demonstrated; its negative is that of what never leads there; the
    # authors', for a discount of 0.99
    expectile: float = 0.7  # no effect: V is fitted by its own loss
    beta: float = (
        3.0  # inverse temperature of the policy: how far it prefers better actions; as for implicit Q-learning
    )
    batch_size: int = equinox.field(static=True, default=1024)  # transitions of the data in an update, and as many
    # demonstrations; the authors'

    def value_error(self, difference: Float[Array, " batch"]) -> Float[Array, " batch"]:
        """Compute the value's loss above, of Q - V."""
        z = jnp.minimum(difference / self.temperature, self.most_exponent)
        most = jax.lax.stop_gradient(jnp.maximum(z.max(), -1.0))
        return jnp.exp(z - most) - z * jnp.exp(-most) - jnp.exp(-most)

    def target(self, now: Experience, after: Float[Array, " batch"]) -> Float[Array, " batch"]:
        """Compute y above; `after` is V(s')."""
        following = jnp.where(now.terminated, -self.most_value, after)
        return self.discount * following - (1 - self.discount) * self.most_value

    def critic_loss(self, critics: ActionValue, inputs: CriticInputs) -> tuple[Float[Array, ""], CriticReport]:
        """Compute the critics' loss over the data, and over as many demonstrations, drawn with the key."""
        assert isinstance(self.demonstrations, Demonstrations)
        shown = self.demonstrations.draw(inputs.key, len(inputs.target))
        loss, report = super().critic_loss(critics, inputs)
        action = jax.vmap(inputs.actions.action_features)(shown.action)
        error = each_value(critics, shown.observation, action) - self.most_value
        loss = loss + 0.5 * jnp.mean(error**2, axis=1).sum()
        return loss, report._replace(loss=loss)
