"""Generative adversarial imitation learning: rewards for resembling demonstrations, judged by a discriminator."""

from __future__ import annotations

from typing import ClassVar

import equinox
import jax
from gymnasium import spaces
from jaxtyping import Array, Float, Key

from forage.core.ports.needs import Choices
from forage.nn.distributions import Actions
from forage.rewards.adversarial.base import Discriminating, DiscriminatorInputs, Sight

PAID = {
    "positive": jax.nn.softplus,
    "negative": lambda logit: -jax.nn.softplus(-logit),
    "logit": lambda logit: logit,
}


class Discriminator(equinox.Module):
    """The logit that an observation and an action are a demonstration."""

    sight: Sight
    actions: Actions = equinox.field(static=True)

    def __call__(self, seen: DiscriminatorInputs) -> Float[Array, " row"]:
        return self.sight(seen.observation, seen.action, seen.absorbing)


class GAIL(Discriminating):
    """GAIL: r(s, a) = -log(1 - D(s, a)), with D the probability of a demonstration rather than the agent's own.

    What is paid, by `paid`, is always above 0, always below 0, or either:

        positive   -log(1 - D)            as published, where D is the share of the agent's own
        negative   log D                  each step costs
        logit      log D - log(1 - D)     as in discriminator-actor-critic (Kostrikov et al., 2018)

    With any agent: on PPO as published, but for the step of the policy (there TRPO), and on replay, as in
    discriminator-actor-critic, whose gradient penalty and absorbing states it has (`forage.rewards.adversarial.base`).
    The environment's reward is not used to learn; it is what scores count. Two known failures: without `absorbing` the
    reward's sign decides how long episodes last, and a discriminator that is never wrong pays nothing to learn from,
    which metrics tell (`demonstrations_told`, `own_told`: shares that it tells rightly).

    Two hidden layers of 100 tanh units are the paper's, as far as could be looked up in others' accounts of it; the
    observations are normalised by the demonstrations' mean and spread; step size, batches and the agent's own
    transitions kept are choices of ours.

    Source: Ho, Ermon (2016), "Generative Adversarial Imitation Learning", arXiv 1606.03476.
    """

    example: ClassVar[str] = "forage train ppo CartPole-v1 --rewards gail --rewards.demonstrations expert.npz"
    own_choices: ClassVar[str] = "the step size, the batches, and the number of transitions kept"
    choices: ClassVar[Choices] = {"paid": PAID}

    paid: str = equinox.field(static=True, default="positive")  # what is paid: positive, negative or logit

    def build(self, key: Key[Array, ""], shape: tuple[int, ...], space: spaces.Space) -> Discriminator:
        actions = Actions.from_space(space)
        return Discriminator(Sight(key, shape, actions.outputs + 1, self), actions)

    def verdict(self, network: Discriminator, seen: DiscriminatorInputs) -> Float[Array, " row"]:
        return network(seen)

    def pay(self, verdict: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
        return PAID[self.paid](verdict)
