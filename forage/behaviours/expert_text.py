"""Worked examples: the reference is written in place of an answer."""

from __future__ import annotations

from typing import Any, ClassVar

import jax
import jax.numpy as jnp
from jaxtyping import Array, PyTree

from forage.core.ports import ActContext, Behaviour, Decision, HiddenState
from forage.core.ports.needs import Needs
from forage.core.types import GUIDE


class ExpertText(Behaviour):
    """An expert's next text, from the text environment's references, in place of the policy's answer.

    So a conversation goes as the expert's goes, and the agent writes nothing, which saves the time that sampling takes.
    Where there is no reference nothing is written. It is how a data set of conversations is made, one for each problem:
    Ouyang et al. (2022), "Training Language Models to Follow Instructions with Human Feedback", arXiv 2203.02155,
    begins with supervised learning of such.
    """

    example: ClassVar[str] = "forage train sft text:addition --behaviour expert-text"
    needs: ClassVar[Needs] = Needs(writes=True)

    def act(self, state: Any, hidden: HiddenState, observation: PyTree[Array], moment: ActContext) -> Decision:
        own = jax.eval_shape(lambda o, k: moment.own(hidden.agent, o, k)[2], observation, moment.key)
        policy_info = jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), own)
        return Decision(observation["reference"], hidden, policy_info, jnp.int32(GUIDE))
