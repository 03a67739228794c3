"""Inverse soft Q-learning: from demonstrations to action values, and so to a policy and to rewards, without a contest.

Garg, Chakraborty, Cundy, Song, Ermon (2021), "IQ-Learn: Inverse soft-Q Learning for Imitation", arXiv 2106.12142. With
temperature alpha, V(s) = alpha log sum_a exp(Q(s, a) / alpha) and the policy exp((Q(s, a) - V(s)) / alpha), each update
takes one step down

    -mean_demonstrations r + mean (V(s) - discount (1 - terminated) V(s')) + mean r^2 / (4 strength)
    r = Q(s, a) - discount (1 - terminated) V(s')

over as many demonstrations as transitions of the agent's own (`forage_papers.ops.inverse_q`). Every r is of the
recorded action, as in the authors' first release and in their program today (Div99/IQ-Learn: iq.py; one version between
them, 1f08bf3, asked the policy for another action in the last mean). The environment's reward is not used to learn; a
memory's weights are those of the agent's own transitions.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import equinox
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key, PyTree

from forage.agents.q_learning.dqn import DQN, DQNState, QNetwork
from forage.core.ports import ActInputs, Metrics
from forage.core.ports.needs import Choices, Needs, Unused
from forage.core.ranges import Range, Ranges
from forage.core.spaces import split_mask
from forage.core.types import Batch, Clock, Experience
from forage.data.demonstrations import Demonstrations, as_demonstrations, join_experience
from forage.nn.distributions import Categorical, draw_action
from forage.ops.action_values import take_values, update_target
from forage_papers.ops.inverse_q import OBJECTIVES, inverse_q


class IQLearn(DQN):
    """Inverse soft Q-learning for numbered actions (Garg et al., 2021, arXiv 2106.12142).

    From a file alone, without environment steps, with `--data FILE` beside `--demonstrations FILE`; for bounded
    continuous actions see `iq-learn-sac`.

    Defaults are those of the authors' runs of CartPole and of all other tasks with numbered actions: values of the
    demonstrations' states alone are made small, and rewards of demonstrations alone kept near 0 (`value_expert` and
    `method.chi` of scripts/run_offline.sh and run_atari.sh), two layers of 64 ELU units, step size 1e-4, batches of 32
    demonstrations and 32 transitions, temperature 0.001, divergence of strength 0.5, and what follows valued by the
    network itself, with gradient. Their run of CartPole learns from the file alone, cuts no gradients, begins with
    PyTorch's weights, and is evaluated by drawn actions; here by the most probable ones.
    With `--objective value` the agent's own states count, too; with `--regularise-own true`, the authors' for MuJoCo
    tasks, it unlearned CartPole here.
    """

    example: ClassVar[str] = "forage train iq-learn CartPole-v1 --demonstrations expert.npz"
    ranges: ClassVar[Ranges] = {"temperature": Range(0, above=True), "strength": Range(0, above=True)}

    usual_behaviour: ClassVar[str] = "policy"
    stochastic: ClassVar[bool] = True
    needs: ClassVar[Needs] = Needs(given="demonstrations")
    choices: ClassVar[Choices] = {"objective": OBJECTIVES}
    unused: ClassVar[Unused] = {
        "n_step double gru_size bins noisy": "IQ-Learn learns soft values of all actions from single transitions"
    }

    demonstrations: str | Demonstrations | None = equinox.field(
        default=None, converter=as_demonstrations
    )  # file of the
    # transitions to imitate, as forage data record writes it
    temperature: float = 0.001  # weight of the policy's entropy; larger acts more at random
    strength: float = 0.5  # how far rewards may be from 0; larger lets them be further
    objective: str = equinox.field(
        static=True, default="value_expert"
    )  # whose states' values are made small: value (all) or
    # value_expert (the demonstrations')
    regularise_own: bool = equinox.field(static=True, default=False)  # rewards of the agent's own transitions are kept
    # near 0 as well as those of demonstrations
    use_target: bool = equinox.field(
        static=True, default=False
    )  # what follows is valued by the target network, without
    # a gradient
    learning_rate: float = 1e-4
    final_learning_rate: float = 1.0  # reached linearly at the end of the run, as a share of learning_rate
    rollout_length: int = equinox.field(static=True, default=1)
    batch_size: int = equinox.field(static=True, default=32)
    learning_starts: int = equinox.field(static=True, default=1280)
    hidden_sizes: tuple[int, ...] = equinox.field(static=True, default=(64, 64))
    activation: str | Callable[[Any], Any] = equinox.field(static=True, default="elu")
    target_update_interval: int = equinox.field(static=True, default=4)  # environment steps between two updates of the
    # target network, where there is use for one
    double: bool = equinox.field(static=True, default=False)
    dueling: bool = equinox.field(static=True, default=False)
    n_step: int = equinox.field(static=True, default=1)

    def act(self, state: DQNState, inputs: ActInputs) -> tuple[PyTree[Array], PyTree[Array], PyTree[Array]]:
        policy = self.policy(state, inputs.observation)
        return draw_action(policy, inputs), inputs.hidden, ()

    def policy(self, state: DQNState, observation: PyTree[Array]) -> Categorical:
        """Return the distribution of actions for one observation."""
        return Categorical.from_logits(state.network(observation) / self.temperature, split_mask(observation)[1])

    def probabilities(self, state: DQNState, observation: PyTree[Array], explore: bool) -> Float[Array, " actions"]:
        return self.policy(state, observation).probabilities(explore)

    def soft_value(self, q: Float[Array, "row actions"], observation: PyTree[Array]) -> Float[Array, " row"]:
        """Compute alpha log sum_a exp(Q(s, a) / alpha) over the actions allowed."""
        mask = split_mask(observation)[1]
        logits = jax.vmap(Categorical.from_logits, in_axes=(0, None if mask is None else 0))(
            q / self.temperature, mask
        ).logits
        return self.temperature * jax.nn.logsumexp(logits, axis=-1)

    def learn(
        self, state: DQNState, batch: Batch, clock: Clock, key: Key[Array, ""]
    ) -> tuple[DQNState, Metrics, Float[Array, " batch"]]:
        assert isinstance(self.demonstrations, Demonstrations)
        own = batch.transitions
        shown = self.demonstrations.draw(jax.random.fold_in(key, 2), self.batch_size)
        rows = join_experience(shown, own)
        gradient, (reward, metrics) = jax.grad(self.objective_of, has_aux=True)(
            state.network, state.target, rows, jnp.concatenate([jnp.ones(self.batch_size), batch.weight])
        )
        state = self.descend(state, gradient, clock, key)
        count = state.updates + 1
        target = update_target(self, state.target, state.network, count)
        return state._replace(target=target, updates=count), metrics, jnp.abs(reward[self.batch_size :]) * own.counts

    def objective_of(
        self, network: QNetwork, target: QNetwork, rows: Experience, weight: Float[Array, " row"]
    ) -> tuple[Float[Array, ""], tuple[Float[Array, " row"], Metrics]]:
        """Compute the objective over rows, demonstrations first; also return the rewards implied by Q, and metrics."""
        q = network.rows(rows.observation)
        after = network.rows(rows.next_observation)
        if self.use_target:
            after = jax.lax.stop_gradient(target.rows(rows.next_observation))
        following = self.discount * jnp.where(rows.terminated, 0.0, self.soft_value(after, rows.next_observation))
        taken = take_values(q, rows.action)
        value, counts = self.soft_value(q, rows.observation), weight * rows.counts
        loss = inverse_q(
            taken, value, following, self.batch_size, counts, self.objective, self.strength, self.regularise_own
        )
        reward, size = taken - following, self.batch_size
        metrics = {"loss": loss, "q": taken.mean(), "reward_shown": reward[:size].mean()}
        return loss, (reward, metrics | {"reward_own": reward[size:].mean()})
