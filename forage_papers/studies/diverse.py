"""RepExp at test time: of many answers those are tried first that a model reads as unlike the ones before."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from forage.agents.language.base import AnswerRows
from forage.studies.choosing import Candidates, Chooser, in_parts
from forage_papers.rewards.verifiers.representation import projection

RIDGE, SIZE = 0.01, 32  # as in the authors' training


def novel_order(features: Float[np.ndarray, "answer feature"], ridge: float = RIDGE) -> Int[np.ndarray, " answer"]:
    """Return answers in the order of their novelty: the next one is that of the greatest h' V^-1 h of those left.

    V = ridge I + sum over answers before of h h'
    """
    left, found = list(range(len(features))), []
    inverse = np.eye(features.shape[1]) / ridge
    while left:
        bonus = np.einsum("af,fg,ag->a", features[left], inverse, features[left])
        taken = left.pop(int(np.argmax(bonus)))
        found.append(taken)
        seen = inverse @ features[taken]
        inverse = inverse - np.outer(seen, seen) / (1 + features[taken] @ seen)  # Sherman and Morrison's formula
    return np.array(found)


class Diverse(Chooser):
    """The answers that a model reads as unlike those tried before come first (RepExp at test time).

    h is the mean of the last hidden states of an answer's tokens, through a sparse random projection to 32 numbers,
    less the mean of all answers to the problem, as in the reward `representation`; the model is that which wrote.

        forage evaluate RUN --pass 64 --choose forage_papers.studies.diverse:Diverse

    Source: Tuyls, Foster, Krishnamurthy, Ash, 2025, "Representation-Based Exploration for Language Models: From
    Test-Time to Post-Training", arXiv 2510.11686: the bonus given the vectors before is the project page's
    (rep-exp.github.io), which has the mean over tokens too. That projection, mean and the multiple of the identity at
    test time are those of training (`recipe/rep_exp` of verl) could not be looked up, nor which layer is read. Sampling
    that is changed token by token, which the paper has too, is not here.
    """

    def order(self, told: Candidates) -> Int[np.ndarray, " answer"]:
        network = told.agent.masters(told.state)

        def average(rows: AnswerRows) -> Float[Array, "row width"]:
            hidden = told.agent.compute_hidden(network, rows).astype(jnp.float32)
            total = jnp.sum(jnp.where(rows.wrote[..., None], hidden, 0.0), 1)
            return total / jnp.maximum(rows.wrote.sum(1), 1)[:, None]

        width = network.architecture.width
        features = in_parts(average, told.rows) @ np.asarray(projection(jax.random.key(0), width, SIZE))
        return novel_order((features - features.mean(0)).astype(float))
