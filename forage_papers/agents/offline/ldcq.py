"""Latent diffusion-constrained Q-learning: follow the best of several skills drawn by diffusion from the data's.

Venkatraman, Khaitan, Akella, Dolan, Schneider, Berseth (2023), "Reasoning with Latent Diffusion in Offline
Reinforcement Learning", arXiv 2309.06599 (LDCQ). A skill z stands for `horizon` steps of an episode. In three stages
of a run, one after another, each update takes one step down

    skills    -mean sum log p(a_t|s_t, z) + beta KL(q(z|s_0, a_0, s_1, ...) || p(z|s_0)) / horizon,   z ~ q
    prior     the error by which a denoiser misses the mean of q, given s_0   (`nn/diffusion.py`)
    values    sum_i (Q_i(s_0, z) - y)^2,   y = sum_t discount^t r_t + discount^horizon min_j Q'_j(s', z'),
              z' = argmax of Q'_{3-i} among `candidates` skills that diffusion draws for s', nothing after an end

z in the last being the mean of q. To act, `candidates` are drawn for the state, that of the largest min_j Q' is
followed for `followed` steps, and actions are p(a|s, z): one number after another, each given those before it. The
encoder q is a bidirectional GRU. Losses, networks and numbers are those of the authors' program (ldcq/ldcq:
models/skill_model.py, diffusion_models.py, dqn.py, q_learning_models.py, training/*.py, eval/plan_skills_diffusion.py);
the paper's tables could not be looked up. Differences: the stages are shares of one run; candidates are drawn anew for
each update, where theirs are stored before, 1,000 for each state, of which 100 are drawn; batches are drawn evenly, not
by priority; observations are standardised; learning rates do not fall; gradients of both value networks are cut
together, not one by one; and the decoder of the state a skill leads to, which teaches skills nothing there and chooses
no action, is left out. Segments over an episode's end count nothing.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any, ClassVar, NamedTuple

import equinox
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Key, PyTree

from forage.agents.offline.base import OfflineAgent
from forage.core.ports import ActInputs, Metrics
from forage.core.ports.needs import Needs, Unused
from forage.core.ranges import Range, Ranges, check_order
from forage.core.spaces import observation_part, split_mask
from forage.core.types import Batch, Clock, Experience, ForageError, Spec
from forage.nn.critics import each_value, stack_modules
from forage.nn.distributions import Actions
from forage.nn.layers import MLP, Linear, Norm
from forage.nn.networks import GRU
from forage.ops.episodes import alive
from forage.ops.optimiser import Optimiser, adam, blend
from forage_papers.nn.diffusion import Denoiser, denoise, denoising_error

LEAST_DEVIATION = 1e-3  # by which an entry of observations that never changes is divided
LAYERS = 4  # of the encoder
LEAST_STD = 1e-4  # of any distribution, so that no density is infinite


class Normal(NamedTuple):
    """Independent normal numbers."""

    mean: Float[Array, "*batch size"]
    std: Float[Array, "*batch size"]

    def log_probability(self, x: Float[Array, "*batch size"]) -> Float[Array, "*batch"]:
        """Compute the log-density of vectors."""
        return jax.scipy.stats.norm.logpdf(x, self.mean, self.std).sum(-1)

    def divergence(self, other: Normal) -> Float[Array, "*batch"]:
        """Compute KL(self || other)."""
        ratio = (self.std / other.std) ** 2
        return 0.5 * (ratio + ((self.mean - other.mean) / other.std) ** 2 - 1 - jnp.log(ratio)).sum(-1)


class Bell(equinox.Module):
    """A normal distribution for each input: two layers, and two more for the mean and for the deviation."""

    body: MLP | None
    mean: MLP
    std: MLP

    def __init__(self, key: Key[Array, ""], inputs: int, hidden: int, outputs: int, body: bool = True):
        keys = jax.random.split(key, 3)
        self.body = MLP(keys[0], (inputs, hidden, hidden), activate_last=True) if body else None
        first = hidden if body else inputs
        self.mean, self.std = (MLP(key, (first, hidden, outputs)) for key in keys[1:])

    def __call__(self, x: Float[Array, "*batch inputs"]) -> Normal:
        x = x if self.body is None else self.body(x)
        return Normal(self.mean(x), jax.nn.softplus(self.std(x)) + LEAST_STD)


class Encoder(equinox.Module):
    """The posterior of a segment's skill: a bidirectional GRU over states and actions."""

    embed: MLP
    layers: tuple[tuple[GRU, GRU], ...]
    head: Bell

    def __init__(self, key: Key[Array, ""], state: int, dimensions: int, hidden: int, skill: int):
        embed_key, head_key, *keys = jax.random.split(key, 2 + 2 * LAYERS)
        self.embed = MLP(embed_key, (state, hidden, hidden), activate_last=True)
        sizes = [(hidden, dimensions), *[(2 * hidden, 0)] * (LAYERS - 1)]
        pairs = zip(keys[::2], keys[1::2], strict=True)
        self.layers = tuple(
            (GRU(one, *size, hidden), GRU(other, *size, hidden))
            for size, (one, other) in zip(sizes, pairs, strict=True)
        )
        self.head = Bell(head_key, 2 * hidden, hidden, skill, body=False)

    def __call__(self, state: Float[Array, "time state"], action: Float[Array, "time dimensions"]) -> Normal:
        """Return the distribution of the skill of one segment."""
        x = self.embed(state)
        for forward, backward in self.layers:
            heard = [jax.vmap(gru.hear)(x, action) for gru in (forward, backward)]
            x = jnp.concatenate([run(forward, heard[0]), run(backward, heard[1][::-1])[::-1]], axis=-1)
            action = action[:, :0]
        return self.head(x[-1])


def run(gru: GRU, heard: Float[Array, "time gates"]) -> Float[Array, "time size"]:
    """Return a GRU's state after each step."""
    first = jnp.zeros(heard.shape[1] // 3)
    return jax.lax.scan(lambda h, x: (gru.step(h, x),) * 2, first, heard)[1]


class Skills(equinox.Module):
    """Encoder, prior, and the policy that follows a skill, with a network for each number of an action."""

    encoder: Encoder
    prior: Bell
    policy: Bell  # leaves [number, ...]
    space: Actions = equinox.field(static=True)

    def __init__(self, key: Key[Array, ""], state: int, space: Actions, hidden: int, skill: int):
        keys, dimensions = jax.random.split(key, 3), space.outputs
        self.space = space
        self.encoder = Encoder(keys[0], state, dimensions, hidden, skill)
        self.prior = Bell(keys[1], state, hidden, skill)
        inputs = state + skill + dimensions
        self.policy = stack_modules(lambda k: Bell(k, inputs, hidden, 1), keys[2], dimensions)

    def skill_distributions(self, segments: Segments) -> Normal:
        """Return the distributions of the skills of segments."""
        return jax.vmap(self.encoder, (1, 1))(segments.state, segments.action)

    def actions(
        self, state: Float[Array, "*batch state"], skill: Float[Array, "*batch skill"], action: Float[Array, "*batch n"]
    ) -> Normal:
        """Return the distribution of each number of an action, given those before it in `action`."""
        dimensions = action.shape[-1]
        before = jnp.tril(jnp.ones((dimensions, dimensions)), -1)

        def one(bell: Bell, mask: Float[Array, " n"]) -> Normal:
            return bell(jnp.concatenate([state, skill, action * mask], axis=-1))

        found = jax.vmap(one)(self.policy, before)
        return Normal(*(jnp.moveaxis(x[..., 0], 0, -1) for x in found))

    def decode_action(
        self, state: Float[Array, " state"], skill: Float[Array, " skill"], noise: Float[Array, " n"]
    ) -> Float[Array, " n"]:
        """Return an action, each number made from the noise."""

        def step(i: Int[Array, ""], action: Float[Array, " n"]) -> Float[Array, " n"]:
            found = self.actions(state, skill, action)
            return action.at[i].set(found.mean[i] + found.std[i] * noise[i])

        return jax.lax.fori_loop(0, len(noise), step, jnp.zeros_like(noise))


class Segments(NamedTuple):
    """A batch of segments, as networks see them."""

    state: Float[Array, "time batch size"]
    action: Float[Array, "time batch n"]  # in the unit box
    after: Float[Array, "batch size"]  # the state they lead to
    reward: Float[Array, " batch"]  # their discounted sum
    terminated: Bool[Array, " batch"]  # nothing comes after
    counts: Float[Array, " batch"]  # weight; 0 where an episode ended before the last step


class SkillValue(equinox.Module):
    """Q(s, z): state and skill go through two layers each, and three more together."""

    state: tuple[Linear, ...]
    skill: tuple[Linear, ...]
    joined: tuple[Linear, ...]
    norms: tuple[tuple[Norm, ...], ...]
    leave: Linear

    def __init__(self, key: Key[Array, ""], state: int, skill: int, hidden: int):
        keys = iter(jax.random.split(key, 7))
        half, last = hidden // 2, (max(hidden // 2, 1), max(hidden // 8, 1))
        sizes = (state, hidden, hidden), (skill, half, half), (hidden + half, *last)
        self.state, self.skill, self.joined = (
            tuple(Linear(next(keys), i, o) for i, o in pairwise(row)) for row in sizes
        )
        self.norms = tuple(tuple(Norm(size) for size in row[1:]) for row in sizes)
        self.leave = Linear(next(keys), last[1], 1)

    def __call__(self, state: Float[Array, "*batch state"], skill: Float[Array, "*batch skill"]) -> Float[Array, "*b"]:
        def apply_layers(x: Array, layers: tuple[Linear, ...], norms: tuple[Norm, ...]) -> Array:
            for layer, norm in zip(layers, norms, strict=True):
                x = jax.nn.gelu(norm(layer(x)))
            return x

        both = apply_layers(state, self.state, self.norms[0]), apply_layers(skill, self.skill, self.norms[1])
        return self.leave(apply_layers(jnp.concatenate(both, axis=-1), self.joined, self.norms[2]))[..., 0]


class Following(NamedTuple):
    """The agent's memory within an episode."""

    skill: Float[Array, " skill"]
    left: Int[Array, ""]  # steps for which it is followed yet


class LDCQState(NamedTuple):
    skills: Skills
    skills_optimiser: Any
    denoiser: Denoiser
    denoiser_optimiser: Any
    critics: SkillValue  # leaves [critic, ...]
    target_critics: SkillValue
    critic_optimiser: Any
    mean: Float[Array, " size"]  # of the data's observations
    deviation: Float[Array, " size"]


class LDCQ(OfflineAgent):
    """Q-learning over skills that diffusion draws (Venkatraman et al., 2023, arXiv 2309.06599), from a data set.

    Drawing candidates is most of the work: fewer of them, and fewer `diffusion_steps`, are sooner.
    """

    example: ClassVar[str] = "forage train ldcq Pendulum-v1 --data mixed.npz --candidates 5 --diffusion-steps 20"
    ranges: ClassVar[Ranges] = {
        "denoiser_sizes": Range(1),
        "horizon": Range(1),
        "followed": Range(1),
        "skill_size": Range(1),
        "beta": Range(0),
        "skill_share": Range(0, 1),
        "prior_share": Range(0, 1),
        "skill_learning_rate": Range(0, above=True),
        "prior_learning_rate": Range(0, above=True),
        "diffusion_steps": Range(2),
        "extra_steps": Range(0),
        "candidates": Range(1),
        "hidden_size": Range(8),
    }

    stochastic: ClassVar[bool] = False
    acting: ClassVar[str] = "skills"
    needs: ClassVar[Needs] = Needs(actions="bounded", observations="vector", instead="take iql or bc")
    unused: ClassVar[Unused] = {"encoder layer_norm activation optimiser": "LDCQ has networks of its own"}

    horizon: int = equinox.field(static=True, default=30)  # steps of a skill; more look further ahead at once
    followed: int = equinox.field(static=True, default=10)  # steps for which a skill is followed before another is
    # chosen; fewer correct sooner; the authors'
    skill_size: int = equinox.field(static=True, default=16)  # numbers of a skill; more tell skills apart better; the
    # authors'
    beta: float = 0.05  # weight of the divergence between skills and their prior; larger makes skills more alike; the
    # authors'
    skill_share: float = 0.4  # share of the updates by which skills are learned, the first of the run
    prior_share: float = 0.3  # share of the updates by which the diffusion is learned, after those
    skill_learning_rate: float = 5e-5  # step size of Adam for skills; the authors'
    prior_learning_rate: float = 1e-4  # step size of Adam for the diffusion; the authors'
    learning_rate: float = 1e-3  # step size of Adam for the values; the authors'
    discount: float = 0.995  # worth of a reward one step later; the authors'
    polyak: float = 0.005  # how far each update of the targets moves them towards the values
    diffusion_steps: int = equinox.field(static=True, default=100)  # steps from noise to a skill; the authors'
    extra_steps: int = equinox.field(static=True, default=5)  # times that the last of them is repeated; the authors'
    candidates: int = equinox.field(static=True, default=10)  # skills among which the best is taken; more come nearer
    # to the best, at more computing; the authors' 100, and 50 to act
    batch_size: int = equinox.field(static=True, default=32)  # segments of an update; the authors' for the diffusion,
    # and 128 for values
    hidden_size: int = equinox.field(static=True, default=256)  # units of each layer of skills and values; the authors'
    denoiser_sizes: tuple[int, ...] = equinox.field(static=True, default=(128, 32, 16, 8))  # widths of the denoiser's
    # blocks, falling; the authors'

    def __check_init__(self):
        if self.skill_share + self.prior_share >= 1:
            raise ForageError(
                f"Skills and prior take {self.skill_share + self.prior_share:g} of the run, which leaves nothing for "
                f"values; have skill_share and prior_share sum to less than 1."
            )
        check_order(self, "followed", "horizon", equal=True)

    def check(self, spec: Spec) -> None:
        super().check(spec)
        if spec.horizon is not None and spec.horizon < self.horizon:
            raise ForageError(
                f"Episodes of {spec.name} have {spec.horizon} steps at most, and a skill has {self.horizon}; take a "
                f"shorter horizon."
            )

    @property
    def segment(self) -> int:
        return self.horizon

    def init(self, key: Key[Array, ""], spec: Spec) -> LDCQState:
        skill_key, prior_key, value_key = jax.random.split(key, 3)
        (size,) = observation_part(spec.observation_space).shape  # type: ignore[misc]
        skills = Skills(skill_key, size, Actions.from_space(spec.action_space), self.hidden_size, self.skill_size)
        denoiser = Denoiser(prior_key, self.skill_size, size, self.denoiser_sizes)
        critics = stack_modules(lambda k: SkillValue(k, size, self.skill_size, self.hidden_size), value_key)
        first = [step.init(network) for step, network in zip(self.descents(), (skills, denoiser, critics), strict=True)]
        targets = jax.tree.map(jnp.copy, critics)
        networks = skills, first[0], denoiser, first[1], critics, targets, first[2]
        return LDCQState(*networks, jnp.zeros(size), jnp.ones(size))

    def descents(self) -> tuple[Optimiser, Optimiser, Optimiser]:
        """Return the optimisers of skills, diffusion and values."""
        values = adam(self.learning_rate, max_gradient_norm=1.0)
        return adam(self.skill_learning_rate), adam(self.prior_learning_rate), values

    def init_from_dataset(self, state: LDCQState, data: Experience) -> LDCQState:
        """Return the state with the mean and deviation of the data's observations."""
        rows = split_mask(data.observation)[0]
        return state._replace(mean=rows.mean(0), deviation=jnp.maximum(rows.std(0), LEAST_DEVIATION))

    def standard(self, state: LDCQState, observation: PyTree[Array]) -> Float[Array, "*batch size"]:
        """Return observations as networks see them."""
        return (split_mask(observation)[0] - state.mean) / state.deviation

    # Acting

    def init_hidden(self, spec: Spec) -> Following:
        """Return no skill, so that one is chosen at the first step."""
        return Following(jnp.zeros(self.skill_size), jnp.int32(0))

    def act(self, state: LDCQState, inputs: ActInputs) -> tuple[PyTree[Array], Following, PyTree[Array]]:
        now = self.standard(state, inputs.observation)
        skill_key, action_key = jax.random.split(inputs.key)
        hidden = inputs.hidden
        anew = hidden.left == 0
        found = self.draw_skills(state, now[None], skill_key, anew)[0]
        rows = jnp.broadcast_to(now, (self.candidates, now.size))
        best = found[jnp.argmax(each_value(state.target_critics, rows, found).min(0))]
        following = Following(jnp.where(anew, best, hidden.skill), jnp.where(anew, self.followed, hidden.left) - 1)
        drawn = jax.random.normal(action_key, (state.skills.space.outputs,))
        action = state.skills.decode_action(now, following.skill, drawn if inputs.explore else jnp.zeros_like(drawn))
        return state.skills.space.to_box(jnp.clip(action, -1.0, 1.0)), following, ()

    def draw_skills(
        self,
        state: LDCQState,
        now: Float[Array, "row size"],
        key: Key[Array, ""],
        wanted: Bool[Array, ""] | bool = True,
    ) -> Float[Array, "row candidate skill"]:
        """Draw candidates for each state by diffusion; pure noise unless `wanted`."""
        field = state.denoiser.field(jnp.repeat(now, self.candidates, axis=0))
        shape = len(now) * self.candidates, self.skill_size
        found = denoise(field, key, shape, self.diffusion_steps, self.extra_steps, wanted)
        return found.reshape(len(now), self.candidates, self.skill_size)

    def probabilities(self, state: Any, observation: PyTree[Array], explore: bool) -> Float[Array, " actions"]:
        raise ForageError("LDCQ follows skills for several steps, so its actions have no probabilities.")

    # Learning

    def learn(
        self, state: LDCQState, batch: Batch, clock: Clock, key: Key[Array, ""]
    ) -> tuple[LDCQState, Metrics, Float[Array, " batch"]]:
        e = batch.experience
        segments = Segments(
            self.standard(state, e.observation),
            jax.vmap(jax.vmap(state.skills.space.action_features))(e.action),
            self.standard(state, e.next_observation)[-1],
            jnp.tensordot(self.discount ** jnp.arange(self.horizon), e.reward, 1),
            e.terminated[-1],
            batch.weight * alive(e.ended)[-1],
        )
        stage = (clock.fraction >= self.skill_share).astype(jnp.int32)
        stage += (clock.fraction >= self.skill_share + self.prior_share).astype(jnp.int32)
        steps = self.learn_skills, self.learn_prior, self.learn_values
        nothing = dict.fromkeys(("skill_loss", "divergence", "prior_loss", "value_loss", "value"), jnp.float32(0))

        def one(step: Any) -> Any:
            def update(state: LDCQState) -> tuple[LDCQState, Metrics, Float[Array, " batch"]]:
                later, metrics, error = step(state, segments, key)
                return later, nothing | metrics, error

            return update

        state, metrics, error = jax.lax.switch(stage, [one(step) for step in steps], state)
        return state, metrics | {"stage": stage.astype(jnp.float32)}, error * segments.counts

    def learn_skills(
        self, state: LDCQState, segments: Segments, key: Key[Array, ""]
    ) -> tuple[LDCQState, Metrics, Float[Array, " batch"]]:
        """Take one step of encoder, policy and prior."""
        noise = jax.random.normal(key, (len(segments.counts), self.skill_size))

        def loss(skills: Skills) -> tuple[Float[Array, ""], tuple[Array, Array]]:
            each, divergence = self.skill_error(skills, segments, noise)
            total = each + self.beta * divergence
            return weighted_mean(total, segments.counts), (total, weighted_mean(divergence, segments.counts))

        (value, (each, divergence)), gradient = jax.value_and_grad(loss, has_aux=True)(state.skills)
        skills, optimiser = self.descents()[0].step(gradient, state.skills_optimiser, state.skills)
        metrics = {"skill_loss": value, "divergence": divergence}
        return state._replace(skills=skills, skills_optimiser=optimiser), metrics, each

    def skill_error(
        self, skills: Skills, segments: Segments, noise: Float[Array, "batch skill"]
    ) -> tuple[Float[Array, " batch"], Float[Array, " batch"]]:
        """Compute the negative log-likelihood of segments' actions given their skills, and the divergence of the
        skills.
        """
        found = skills.skill_distributions(segments)
        skill = jnp.broadcast_to(found.mean + found.std * noise, (self.horizon, *noise.shape))
        actions = skills.actions(segments.state, skill, segments.action)
        divergence = found.divergence(skills.prior(segments.state[0])) / self.horizon
        return -actions.log_probability(segments.action).mean(0), divergence

    def learn_prior(
        self, state: LDCQState, segments: Segments, key: Key[Array, ""]
    ) -> tuple[LDCQState, Metrics, Float[Array, " batch"]]:
        """Take one step of the denoiser."""
        skill = state.skills.skill_distributions(segments).mean

        def loss(denoiser: Denoiser) -> tuple[Float[Array, ""], Float[Array, " batch"]]:
            each = denoising_error(denoiser.field(segments.state[0]), skill, key, self.diffusion_steps)
            return weighted_mean(each, segments.counts), each

        (value, each), gradient = jax.value_and_grad(loss, has_aux=True)(state.denoiser)
        denoiser, optimiser = self.descents()[1].step(gradient, state.denoiser_optimiser, state.denoiser)
        return state._replace(denoiser=denoiser, denoiser_optimiser=optimiser), {"prior_loss": value}, each

    def learn_values(
        self, state: LDCQState, segments: Segments, key: Key[Array, ""]
    ) -> tuple[LDCQState, Metrics, Float[Array, " batch"]]:
        """Take one step of the values, and one of their targets."""
        skill, found = state.skills.skill_distributions(segments).mean, self.draw_skills(state, segments.after, key)
        target = self.target(state, segments, found)

        def loss(critics: SkillValue) -> tuple[Float[Array, ""], tuple[Array, Array]]:
            values = each_value(critics, segments.state[0], skill)
            error = values - target
            return jax.vmap(weighted_mean, (0, None))(error**2, segments.counts).sum(), (jnp.abs(error).mean(0), values)

        (value, (each, values)), gradient = jax.value_and_grad(loss, has_aux=True)(state.critics)
        critics, optimiser = self.descents()[2].step(gradient, state.critic_optimiser, state.critics)
        targets = blend(critics, state.target_critics, self.polyak)
        state = state._replace(critics=critics, target_critics=targets, critic_optimiser=optimiser)
        return state, {"value_loss": value, "value": values.mean()}, each

    def target(
        self, state: LDCQState, segments: Segments, found: Float[Array, "batch candidate skill"]
    ) -> Float[Array, "critic batch"]:
        """Compute each critic's target, with the other critic's choice among candidates `found` as its next skill."""
        rows = jnp.broadcast_to(segments.after[:, None], (*found.shape[:2], segments.after.shape[1]))
        values = each_value(state.target_critics, rows, found)
        best = jnp.argmax(values[::-1], axis=-1)
        later = jax.vmap(lambda at: jnp.take_along_axis(values.min(0), at[:, None], axis=1)[:, 0])(best)
        return segments.reward + self.discount**self.horizon * jnp.where(segments.terminated, 0.0, later)


def weighted_mean(x: Float[Array, " batch"], counts: Float[Array, " batch"]) -> Float[Array, ""]:
    """Compute the mean over the rows that count."""
    return (counts * x).sum() / jnp.maximum(counts.sum(), 1e-8)
