"""ArCHer: a critic of whole turns learns off-policy, and gives the policy an advantage of each turn.

Zhou, Zanette, Pan, Levine, Kumar (2024), "ArCHer: Training Language Model Agents via Hierarchical Multi-Turn RL", arXiv
2402.19446. What was said so far is a state s, and a turn's text an action a. From a replay memory of turns two critics
learn values of both,

    Q(s, a) towards r + discount V'(s'),  0 in place of V' after the last turn
    V(s)    towards Q'(s, b),  b written anew by the policy

where V' and Q' follow Q and V slowly; and the policy goes up the gradient of

    log pi(b | s) (min Q(s, b) - min V(s)),

with b its own text for a replayed state: its tokens share one advantage.

As in the authors' program (YifeiZhou02/ArCHer: archer/algorithms/archer/trainer.py) but for these: critics are heads on
one transformer that begins as a copy of the first policy and learns whole (there a RoBERTa), each batch is for critic
and policy at once (there 3 passes of each, and the critic's may be more), and one text b serves both. Its variants with
a baseline of tokens and with implicit Q-learning are not here. The paper's pages could not be looked up.
"""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar, NamedTuple

import equinox
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Key, PyTree

from forage.agents.language.base import AnswerRows, LanguageAgent, LanguageState, answers
from forage.core.ports import ActInputs, Metrics
from forage.core.ports.needs import Unused
from forage.core.ranges import Range, Ranges
from forage.core.spaces import Tokens
from forage.core.types import Batch, Clock, Spec
from forage.nn.language.generate import last_hidden
from forage.nn.layers import MLP
from forage.nn.transformer import Transformer
from forage.ops.optimiser import adam


class Critic(equinox.Module):
    """Two values of states and two of turns, from a transformer's features."""

    trunk: Transformer
    turn: tuple[MLP, MLP]  # Q, of what was said and the turn
    state: tuple[MLP, MLP]  # V, of what was said

    def of_turns(
        self, tokens: Int[Array, "row time"], there: Bool[Array, "row time"], new: int
    ) -> tuple[Float[Array, "2 row"], Float[Array, "2 row"]]:
        """Return Q and V of texts with the turn in their last `new` columns."""
        hidden = self.trunk.hidden_states(tokens, there)
        before, after = last_hidden(hidden[:, :-new], there[:, :-new]), last_hidden(hidden, there)
        both = jnp.concatenate([before, after], axis=-1)
        return jnp.stack([head(both)[:, 0] for head in self.turn]), self.of_features(before)

    def of_states(self, tokens: Int[Array, "row time"], there: Bool[Array, "row time"]) -> Float[Array, "2 row"]:
        """Return V of texts."""
        return self.of_features(last_hidden(self.trunk.hidden_states(tokens, there), there))

    def of_features(self, features: Float[Array, "row width"]) -> Float[Array, "2 row"]:
        return jnp.stack([head(features)[:, 0] for head in self.state])


class ArCHerState(NamedTuple):
    """State of ArCHer: a language agent's state, and its critics."""

    network: Transformer
    optimiser: Any
    reference: tuple[()]
    end: Int[Array, ""]
    known: Bool[Array, " vocabulary"]
    critic: Critic
    target: Critic
    critic_optimiser: Any


class ArCHer(LanguageAgent):
    """A policy of tokens below a critic of turns (Zhou et al., 2024, arXiv 2402.19446)."""

    acts_either_way: ClassVar[bool] = True
    example: ClassVar[str] = "forage train archer text:guess"
    on_policy: ClassVar[bool] = False
    begins_at_random: ClassVar[bool] = False
    whole_episodes: ClassVar[bool] = False
    ranges: ClassVar[Ranges] = {
        **LanguageAgent.ranges,
        "discount": Range(0, 1),
        "target_rate": Range(0, 1),
        "critic_learning_rate": Range(0),
        "warmup": Range(0),
        "hidden_size": Range(1),
        "batch_size": Range(1),
        "updates_per_rollout": Range(1),
    }
    unused: ClassVar[Unused] = {
        "epochs minibatches accumulate rank": "ArCHer replays batches of turns",
        "router_balance": "ArCHer has a loss of its own",
    }

    critic_learning_rate: float = 1e-3  # step size of the critics, as in their program
    discount: float = 0.9  # worth of a reward one turn later, as in their program
    target_rate: float = 0.1  # how far the slow critics follow at each update, as in their program
    warmup: int = 1000  # steps of the environment, from the first update on, in which the critics alone learn; the
    # published number depends on the task
    hidden_size: int = equinox.field(static=True, default=256)  # units of the critics' heads
    rollout_length: int = equinox.field(static=True, default=1)  # turns of each environment between updates
    batch_size: int = equinox.field(static=True, default=64)  # turns that an update replays
    updates_per_rollout: int = equinox.field(static=True, default=1)  # updates of critics and policy
    learning_starts: int = equinox.field(static=True, default=1000)  # steps of the environment before the first update

    def check(self, spec: Spec) -> None:
        # Turns are replayed one by one, so a rollout may have any number of them
        # Turns are replayed one by one, so a rollout may have any number of them
        super().check(dataclasses.replace(spec, horizon=None))

    def init(self, key: Key[Array, ""], spec: Spec) -> ArCHerState:  # type: ignore[override]
        state = super().init(key, spec)
        width, *keys = self.base_model.architecture.width, *jax.random.split(key, 4)
        heads = [
            MLP(one, (size, self.hidden_size, self.hidden_size, 1))
            for one, size in zip(keys, (2 * width, 2 * width, width, width), strict=True)
        ]
        trunk = jax.tree.map(jnp.copy, self.base_model.first(jnp.float32))
        critic = Critic(trunk, (heads[0], heads[1]), (heads[2], heads[3]))
        inner = adam(self.critic_learning_rate, max_gradient_norm=self.max_gradient_norm).init(critic)
        return ArCHerState(
            state.network, state.optimiser, (), state.end, state.known, critic, jax.tree.map(jnp.copy, critic), inner
        )

    def act(self, state: ArCHerState, inputs: ActInputs) -> tuple[PyTree[Array], PyTree[Array], PyTree[Array]]:  # type: ignore[override]
        """Write a turn, as every language agent does; the critics do not act."""
        policy = LanguageState(state.network, (), (), state.end, state.known)
        return super().act(policy, inputs)

    def learn(  # type: ignore[override]
        self, state: ArCHerState, batch: Batch, clock: Clock, key: Key[Array, ""]
    ) -> tuple[ArCHerState, Metrics, Float[Array, " batch"]]:
        experience = batch.transitions
        context, action = experience.observation["context"], experience.action
        following = experience.next_observation["context"]
        new, counts = action.shape[-1], (context != Tokens.PAD).any(-1)  # a turn that only waits teaches nothing
        goes_on = (following != Tokens.PAD).any(-1) & ~experience.terminated

        # The policy's own texts for replayed states
        acting = LanguageState(state.network, (), (), state.end, state.known)
        temperature = jnp.full((len(context), 1), self.temperature, jnp.float32)
        keys = jax.random.key_data(jax.random.split(key, len(context)))
        own, _ = answers(acting, context, keys, self.sampling(temperature), new, experience.observation.get("room"))
        told, mine = join_turns(context, action), join_turns(context, own)
        onward = jnp.maximum(following - 1, 0), following != Tokens.PAD

        # Critics
        value_target = experience.reward + self.discount * goes_on * state.target.of_states(*onward)
        turn_target, _ = state.target.of_turns(*mine, new)

        def critics_loss(critic: Critic) -> tuple[Float[Array, ""], Array]:
            turn, value = critic.of_turns(*told, new)
            errors = (turn - value_target) ** 2 + (value - turn_target) ** 2
            return masked_mean(errors.sum(0), counts), jnp.abs(turn[0] - value_target[0])

        slope, error = jax.grad(critics_loss, has_aux=True)(state.critic)
        adjust = adam(self.critic_learning_rate, max_gradient_norm=self.max_gradient_norm)
        critic, inner = adjust.step(slope, state.critic_optimiser, state.critic)
        target = jax.tree.map(lambda slow, fast: slow + self.target_rate * (fast - slow), state.target, critic)

        # Policy
        turn, value = critic.of_turns(*mine, new)
        advantage = jax.lax.stop_gradient(turn.min(0) - value.min(0))
        wrote = own != Tokens.PAD
        rows = AnswerRows(*mine, wrote, jnp.zeros(own.shape), jnp.broadcast_to(temperature, own.shape))

        def policy_loss(network: Transformer) -> Float[Array, ""]:
            log_p, _ = self.score_tokens(network, acting, rows)
            return -masked_mean(jnp.where(wrote, log_p, 0).sum(-1) * advantage, counts & wrote.any(-1))

        loss, climb = jax.value_and_grad(policy_loss)(state.network)
        network, optimiser = self.steps(self.rate(clock)).step(climb, state.optimiser, state.network)
        ready = clock.steps >= self.learning_starts + self.warmup
        network, optimiser = jax.tree.map(
            lambda after, before: jnp.where(ready, after, before),
            (network, optimiser),
            (state.network, state.optimiser),
        )
        metrics = {
            "policy_loss": loss,
            "td_error": masked_mean(error, counts),
            "advantage": masked_mean(advantage, counts),
            "value": masked_mean(value.min(0), counts),
            "counted": counts.mean(),
        }
        after = state._replace(
            network=network, optimiser=optimiser, critic=critic, target=target, critic_optimiser=inner
        )
        return after, metrics, error


def join_turns(
    context: Int[Array, "row time"], action: Int[Array, "row new"]
) -> tuple[Int[Array, "row all"], Bool[Array, "row all"]]:
    """Return token ids of a context and a turn, counted from 0, and a mask of real tokens."""
    whole = jnp.concatenate([context, action], axis=1)
    return jnp.maximum(whole - 1, 0), whole != Tokens.PAD


def masked_mean(x: Float[Array, " row"], counts: Bool[Array, " row"]) -> Float[Array, ""]:
    """Return the mean over the rows that count; 0 if none counts."""
    return jnp.where(counts, x, 0).sum() / jnp.maximum(counts.sum(), 1)
