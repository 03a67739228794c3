"""Starts on the host: a state that was kept is gone back to, by the same parts as on the device."""

import functools

import jax
import numpy as np
import pytest

from forage.core.types import Clock, Experience
from forage.environments.adapters.on_host import OnHost
from forage.environments.classic.deep_sea import DeepSea
from forage.loop.host.starts import FRESH, HostStarts, Ticket, unpack_state
from forage_papers.starts.archive import Archive
from forage_papers.starts.cells import NONE
from forage_papers.starts.go_explore import GoExplore
from forage_papers.starts.latent_go_explore import LatentGoExplore


def random_actions(space, number, seed):
    generator = np.random.default_rng(seed)
    return generator.integers(0, space.n, number).astype(np.int32)


def sea(num_envs):
    return OnHost(DeepSea(6), num_envs, "Sea")


def rollout_of(steps, actions, first):
    """Return the experience of a batch of environments."""
    before = [first, *(s.observation for s in steps[:-1])]
    told = jax.tree.map(lambda *x: np.stack(x), *(s.step for s in steps))
    source = np.zeros(told.terminated.shape, np.int32)
    ends = told.terminated, told.truncated
    return Experience(np.stack(before), np.stack(actions), told.reward, told.observation, *ends, source, ())


LATENT = LatentGoExplore(capacity=8, neighbours=2, burst=3, period=32)
PARTS = (Archive(8, 0.9), GoExplore(capacity=16, burst=3), LATENT)


@pytest.mark.parametrize("part", [PARTS[0], *(pytest.param(part, marks=pytest.mark.thorough) for part in PARTS[1:])])
def test_what_is_kept_is_what_was_seen_and_the_rest_is_forgotten(part):
    environment = sea(4)
    starts = HostStarts(part, environment, environment.spec, seed=0)
    observation, age = environment.reset(0), np.zeros(4, np.int32)
    begun_elsewhere, seen = 0, {}
    for turn in range(6):
        steps, actions, first, fresh = [], [], observation, age == 0
        for time in range(8):
            actions.append(random_actions(environment.action_space, 4, 8 * turn + time))
            result = starts.after_step(environment.step(actions[-1]), age)
            over = result.step.terminated | result.step.truncated
            assert not part.cuts or (age[~over] < 6).all()
            age = np.where(over, 0, age + 1)
            begun_elsewhere += sum(
                not np.array_equal(result.observation[i], first_of_sea()) for i in np.flatnonzero(over)
            )
            steps.append(result)
            observation = result.observation
            if part.every_state:
                seen |= take_tickets(starts, result.step.observation)
        starts.report(rollout_of(steps, actions, first), Clock(np.int32(32 * turn), np.float32(192)), fresh)
        if not part.every_state:
            seen |= take_tickets(starts, result.step.observation)
    assert begun_elsewhere > 5
    tickets = [x for x in jax.tree.leaves(starts.state.part, is_leaf=is_ticket) if is_ticket(x)]
    numbers = {int(n) for x in tickets for n in np.asarray(x.number).ravel()} - {FRESH}
    assert numbers == set(starts.saved) and numbers
    for number, state in starts.saved.items():
        np.testing.assert_array_equal(environment.put(0, unpack_state(state)), seen[number])
    if isinstance(part, GoExplore):  # each ticket lies with its own cell
        kept, sight = starts.state.part.archive, starts.state.part.scale
        for slot in np.flatnonzero(kept.cell != NONE):
            row = seen[int(kept.env_state.number[slot])][None]
            assert part.kind(starts.world, sight, (), row)[0] == kept.cell[slot]
    if isinstance(part, LatentGoExplore):  # and with its own transition
        tickets, told = starts.state.part.reservoir.places
        for slot in range(min(int(starts.state.part.reservoir.seen), part.capacity)):
            np.testing.assert_array_equal(told.next_observation[slot], seen[int(tickets.number[slot])])


def take_tickets(starts, observation):
    """Return the observation in each state with a new ticket, by its number."""
    return dict(enumerate(observation, int(starts.state.next) - len(observation)))


def is_ticket(x):
    return isinstance(x, Ticket)


@functools.cache
def first_of_sea():
    return sea(1).reset(0)[0]
