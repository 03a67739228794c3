"""Visited places: exact counts, without an effect on the run, and across a stop."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tiers import gate_cases

import forage
from forage.core.types import Clock, Experience
from forage.environments.classic.deep_sea import DeepSea
from forage.environments.registry import make
from forage.environments.tabular.mdp import Tabular
from forage.loop.visits import Places, Visits, count_visits, measures, no_visits

PPO = {"num_envs": 4, "rollout_length": 10, "minibatches": 1, "hidden_sizes": (8,)}


def rollout_of(reward):
    reward = jnp.asarray(reward, jnp.float32)
    none = jnp.zeros(reward.shape, bool)
    return Experience(none, none, reward, none, none, none, none, ())


def test_counts_entropy_and_the_first_reward():
    visits = no_visits(DeepSea(2))
    assert visits.counts.shape == (4,)
    clock = Clock(jnp.int32(100), jnp.float32(1000))
    visits = count_visits(visits, jnp.array([[0, 1], [1, 1]]), rollout_of([[0, -1], [0, 0]]), clock)
    assert np.isnan(measures(visits)["first_reward"])
    visits = count_visits(visits, jnp.array([[0, 0], [2, 2]]), rollout_of([[0, 0], [0, 0.5]]), clock)
    visits = count_visits(visits, jnp.array([[0, 0]]), rollout_of([[3, 3]]), clock._replace(steps=jnp.int32(104)))
    assert visits.counts.tolist() == [5, 3, 2, 0]
    found = measures(visits)
    assert found["first_reward"] == 104 and found["places_visited"] == 3  # two steps of two environments after 100
    share = np.array([0.5, 0.3, 0.2])
    np.testing.assert_allclose(found["visitation_entropy"], -(share * np.log(share)).sum(), rtol=1e-6)


def test_a_place_may_be_visited_more_often_than_a_float_can_count():
    visits = Visits(jnp.array([2**24, 0], jnp.int32), jnp.int32(1))
    visits = count_visits(
        visits, jnp.array([[0, 0], [0, 1]]), rollout_of([[0, 0], [0, 0]]), Clock(jnp.int32(0), jnp.float32(1))
    )
    assert visits.counts.tolist() == [2**24 + 3, 1]


def test_where_episodes_begin_is_counted_apart():
    visits = no_visits(DeepSea(2))
    places = Places(jnp.array([[1, 2], [3, 3]]), jnp.array([[0, 4], [4, 0]]))  # 4 is beyond the map of four places
    visits = count_visits(visits, places, rollout_of([[0, 0], [0, 0]]), Clock(jnp.int32(0), jnp.float32(9)))
    assert visits.counts.tolist() == [0, 1, 1, 2] and visits.begun.tolist() == [2, 0, 0, 0]
    assert measures(visits)["places_visited"] == 3  # of where steps led to, as before


@pytest.mark.thorough
def test_the_loop_sees_where_episodes_begin():
    from forage.config.resolve import resolve

    setup = resolve("ppo", "DeepSea-5", steps=100, seeds=1, visits=True, agent_options=PPO)
    runner = setup.runner()
    runner.begin()
    runner.advance(2)
    assert runner.start_counts.shape == (1, 5, 5) and runner.start_counts.sum() == runner.start_counts[0, 0, 0] == 16
    assert runner.visits.sum() == 80 and runner.visits[0, 0, 0] == 0


@pytest.mark.parametrize("name", gate_cases(["DeepSea-5", "tabular:FrozenLake-4", "maze:UMaze"], ["DeepSea-5"]))
def test_what_is_reached_can_be_reached(name):
    environment = make(name)
    can = environment.reachable()
    assert can.shape == environment.map_shape and can.any()

    def step(carry, key):
        state, keys = carry, jax.random.split(key, 3)
        action = jax.random.randint(keys[0], (), 0, getattr(environment.action_space, "n", 2))
        if environment.action_space.shape:
            action = jax.random.uniform(keys[0], environment.action_space.shape, minval=-1.0, maxval=1.0)
        following, told = environment.step(state, action, keys[1])
        fresh, _ = environment.reset(keys[2])
        over = told.terminated | told.truncated
        places = environment.map_position(state), environment.map_position(following)
        return jax.tree.map(lambda a, b: jnp.where(over, a, b), fresh, following), places

    first, _ = environment.reset(jax.random.key(0))
    _, places = jax.lax.scan(step, first, jax.random.split(jax.random.key(1), 1000))
    reached = np.unique(np.concatenate(places))
    assert len(reached) > 1 and can.reshape(-1)[reached].all()


def test_states_behind_a_wall_cannot_be_reached():
    assert DeepSea(3).reachable().tolist() == [[True, False, False], [True, True, False], [True, True, True]]
    transition = np.zeros((4, 1, 4))
    transition[0, 0, 1] = transition[1, 0, 2] = transition[2, 0, 3] = transition[3, 0, 3] = 1
    chain = Tabular(transition, np.zeros((4, 1)), np.array([1.0, 0, 0, 0]), np.array([False, False, True, False]))
    assert chain.reachable().tolist() == [True, True, True, False]  # what lies behind the end


def test_without_a_map_only_the_first_reward_is_known():
    visits = count_visits(
        Visits(jnp.zeros(0), jnp.int32(-1)), (), rollout_of([[0], [1]]), Clock(jnp.int32(5), jnp.float32(9))
    )
    assert measures(visits) == {"first_reward": 7.0}


@pytest.mark.thorough
def test_a_run_counts_its_steps_and_learns_as_it_would(tmp_path):
    usual = {"steps": 400, "seeds": [0, 1], "agent_options": PPO, "display": "quiet", "evaluation_episodes": 2}
    counted = forage.train("ppo", "DeepSea-5", directory=tmp_path / "counted", visits=True, **usual)
    plain = forage.train("ppo", "DeepSea-5", directory=tmp_path / "plain", **usual)
    assert counted.evaluation["return"] == plain.evaluation["return"]
    assert [row["value_loss"] for row in counted.rows] == [row["value_loss"] for row in plain.rows]
    visits = counted.visits
    assert plain.visits is None and visits.shape == (2, 5, 5) and (visits.sum((1, 2)) == 400).all()
    assert counted.rows[-1]["places_visited"] == (visits > 0).sum((1, 2)).tolist()
    assert (tmp_path / "counted" / "visits.png").stat().st_size > 1000


@pytest.mark.thorough
def test_counts_survive_a_stop(tmp_path):
    usual = {"seeds": [0], "agent_options": PPO, "display": "quiet", "evaluation_episodes": 2, "visits": True}
    whole = forage.train("ppo", "DeepSea-5", steps=400, directory=tmp_path / "whole", **usual)
    setup = forage.config.resolve.from_config(whole.config)
    runner = setup.runner()
    runner.begin()
    runner.advance(4)
    again = setup.runner()
    again.restore(jax.device_get(runner.state), runner.steps)
    again.advance(6)
    np.testing.assert_array_equal(np.asarray(again.state.visits.counts).reshape(1, 5, 5), whole.visits)


def test_a_setup_keeps_what_was_asked_for():
    from forage.config.resolve import from_config, resolve

    setup = resolve("ppo", "DeepSea-5", steps=100, seeds=1, visits=True)
    assert (
        from_config(setup.config()).visits and not from_config(dataclasses.replace(setup, visits=False).config()).visits
    )
