"""The choice of greedy or sampled actions for the score follows from episodes played both ways, and both are shown."""

import json
from types import SimpleNamespace
from typing import ClassVar, NamedTuple

import equinox
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import small
from gymnasium import spaces

import forage
from forage.config import registry
from forage.config.resolve import from_config, resolve
from forage.core import prng
from forage.core.ports import Agent, Environment
from forage.core.types import ForageError, Step
from forage.environments.adapters.on_host import OnHost
from forage.loop.runner import EvaluationEpisodes
from forage.runs import display as progress
from forage.runs import scoring as evaluating
from forage.runs.run import Run, write_json
from forage.runs.scoring import choice_sentences, score_agents, score_lines

small.keep_compiled()


class Coin(Agent):
    """Draws one of two actions, with the first of them more likely, and does not learn."""

    on_policy: ClassVar[bool] = True
    stochastic: ClassVar[bool] = True
    num_envs: int = equinox.field(static=True, default=2)
    rollout_length: int = equinox.field(static=True, default=4)

    def check(self, spec):
        pass

    def init(self, key, spec):
        return jnp.zeros(1)

    def act(self, state, inputs):
        return jax.random.randint(inputs.key, (), 0, 2) if inputs.explore else jnp.int32(0), inputs.hidden, ()

    def learn(self, state, batch, clock, key):
        return state, {}, jnp.zeros(batch.weight.shape)


class ForkState(NamedTuple):
    time: jax.Array
    luck: jax.Array


class Fork(Environment):
    """One action has reward 1 and a little that the reset drew. The other ends the episode, or continues for ever."""

    good: int = 1
    forgives: bool = True

    observation_space = spaces.Box(0, 10, (1,), np.float32)
    action_space = spaces.Discrete(2)
    horizon = 8

    def reset(self, key):
        return ForkState(jnp.int32(0), jax.random.uniform(key, maxval=0.1)), jnp.zeros(1)

    def step(self, state, action, key):
        time, paid = state.time + 1, action == self.good
        over = paid | ~jnp.bool_(self.forgives)
        reward = jnp.where(paid, 1 + state.luck, 0.0)
        return ForkState(time, state.luck), Step(time[None] * 1.0, reward, over, (time >= 8) & ~over, {})


class Lines(progress.Progress):
    """Keeps the lines shown at the end."""

    def finish(self, result, lines):
        self.result, self.lines = result, lines


def loops(num_envs):
    """Build a batch on the host with an endless episode under the likelier action."""
    return OnHost(Fork(), num_envs)


def pays(num_envs):
    """Build a batch on the host with the likelier action as the only good one."""
    return OnHost(Fork(good=0, forgives=False), num_envs)


WORLDS = {
    ("device", "sampled"): Fork(),
    ("device", "greedy"): Fork(good=0, forgives=False),
    ("host", "sampled"): loops,
    ("host", "greedy"): pays,
}


@pytest.mark.parametrize(("runner", "better"), WORLDS)
@pytest.mark.thorough
def test_the_policy_that_does_better_is_scored(runner, better, tmp_path):
    display, where = Lines(), {"environment": WORLDS[runner, better]}
    words = {"steps": 8, "seeds": [3, 7], "evaluation_episodes": 8, "directory": tmp_path / "run", "display": display}
    run = forage.train(Coin(), **where, **words)
    evaluation, choice = run.evaluation, run.choice
    assert (evaluation["asked"], evaluation["actions"], choice["actions"]) == ("auto", better, better)
    assert run.actions == better and choice["steps"] == 8
    # Greedy actions never are paid in one world, and always in the other, in all episodes but for luck.
    greedy, sampled = (np.array(choice["return"][actions]) for actions in ("greedy", "sampled"))
    assert (greedy == 0).all() if better == "sampled" else (greedy >= 1).all()
    assert ((sampled > 0) & (sampled < 1.1)).all()
    # What was played to choose is not what is scored: other luck.
    assert not np.isin(evaluation["return"], choice["return"][better]).any()
    text = "\n".join(display.lines)
    assert f"8 evaluation episodes each, played {evaluating.ACTIONS[better]}, 95 % interval" in text
    assert display.result["actions"] == better and display.result["choice"] == choice

    score, seen = forage.evaluate(tmp_path / "run", episodes=8, **where), evaluation["return"]
    assert run.evaluation["actions"] == better and run.choice == choice
    assert score.seeds == 2 and not np.isin(run.evaluation["return"], seen + choice["return"][better]).any()
    other = "greedy" if better == "sampled" else "sampled"
    forage.evaluate(tmp_path / "run", episodes=8, actions=other, **where)
    assert run.evaluation["actions"] == other and run.choice == choice  # told for once
    assert forage.load(tmp_path / "run").sampled == (better == "sampled")
    assert forage.load(tmp_path / "run", actions=other).sampled == (other == "sampled")
    write_json(tmp_path / "run" / "evaluation.json", run.evaluation | {"choice": choice | {"actions": other}})
    forage.evaluate(tmp_path / "run", episodes=8, actions="auto", **where)
    assert run.evaluation["actions"] == better and run.choice == choice  # made anew


class Runner:
    """A stand-in for a runner, with greedy and sampled returns of seeds, and a record of requested episodes."""

    def __init__(self, greedy, sampled, steps=8):
        self.returns, self.steps, self.asked = {False: greedy, True: sampled}, steps, []

    def evaluate(self, episodes, max_steps, seed, sampled):
        self.asked.append((seed, sampled))
        returns = np.repeat(np.array(self.returns[sampled])[:, None], episodes, 1)
        return EvaluationEpisodes(returns, np.ones_like(returns, int), {})


def setup_of(agent="ppo", seeds=2, **options):
    return resolve(agent, "CartPole-v1", seeds=seeds, steps=100_000, **options)


BOTH_WAYS = [(prng.CHOICE, False), (prng.CHOICE, True)]


@pytest.mark.parametrize(
    ("options", "greedy", "sampled", "actions", "chosen"),
    [
        ({}, [0.0, 0.0], [0.3, 0.4], "sampled", True),
        ({}, [0.0, 1.0], [0.3, 0.4], "greedy", True),  # one way for all seeds, by their mean
        ({}, [0.5, 0.5], [0.4, 0.6], "greedy", True),  # of equals
        ({"agent": "dqn"}, [0.0, 0.0], [0.3, 0.4], "greedy", False),
        ({"evaluation_actions": "greedy"}, [0.0, 0.0], [0.3, 0.4], "greedy", False),
        ({"evaluation_actions": "sampled"}, [1.0, 1.0], [0.3, 0.4], "sampled", False),
    ],
)
def test_the_choice_costs_episodes_of_its_own_where_there_is_one(options, greedy, sampled, actions, chosen):
    runner = Runner(greedy, sampled)
    evaluation = score_agents(runner, setup_of(**options), 4)
    assert evaluation["actions"] == actions
    assert runner.asked == BOTH_WAYS * chosen + [(prng.EVALUATION, actions == "sampled")]
    assert (evaluation["choice"] is not None) == chosen


def test_returns_without_a_reward_count_in_no_mean():
    """Of one seed with the returns 1, none and 3: their mean is 2, and its interval that of two episodes."""
    returns = np.array([[1.0, np.nan, 3.0]])
    played = EvaluationEpisodes(returns, np.ones((1, 3), int), {}, no_reward=np.isnan(returns))
    runner = SimpleNamespace(evaluate=lambda *_: played, steps=8)
    setup = setup_of(seeds=1)
    found = evaluating.evaluate_agents(runner, setup, 3)
    assert found["return"] == [2.0] and found["episode_returns"] == [[1.0, None, 3.0]] and found["no_reward"] == 1
    assert evaluating.score_lines(found)[-1] == "1 answer without a reward, of 3, is left out of the score"
    (one,) = evaluating.means_of(setup, found | {"return_range": None}).values()
    assert one.value == 2.0 and one.low == pytest.approx(2 - 12.7062, abs=1e-3)  # t of 1 degree of freedom times 1
    alone = found | {"episode_returns": [[1.0, None, None]], "return_range": None}
    assert [one.low for one in evaluating.means_of(setup, alone).values()] == [None]
    runner.evaluate = lambda *_: played._replace(no_reward=None)
    with pytest.raises(ForageError, match="returned NaN as reward in evaluation, in episode 1 with seed"):
        evaluating.evaluate_agents(runner, setup, 3)


def test_a_choice_holds_for_the_agents_that_it_was_made_of():
    choice = score_agents(Runner([0.0, 0.0], [0.3, 0.4]), setup_of(), 4)["choice"]
    same, later = Runner([1.0, 1.0], [0.3, 0.4]), Runner([1.0, 1.0], [0.3, 0.4], steps=16)
    assert score_agents(same, setup_of(), 4, 5, choice)["actions"] == "sampled" and same.asked == [(5, True)]
    assert score_agents(later, setup_of(), 4, 5, choice)["actions"] == "greedy" and len(later.asked) == 3


@pytest.mark.parametrize(
    ("greedy", "sampled", "said"),
    [
        (
            [0.0, 0.0],
            [0.3, 0.3],
            ["how to play was chosen in 4 other episodes: greedily 0.0 [0.0, 0.0], with sampled actions 0.300"],
        ),
        ([0.0, 1.0], [0.3, 0.3], []),
        ([0.0], [0.3], ["(means over episodes, 95 % intervals)"]),
    ],
)
def test_both_are_shown_where_their_intervals_do_not_meet(greedy, sampled, said):
    evaluation = score_agents(Runner(greedy, sampled), setup_of(seeds=len(greedy)), 4)
    found = choice_sentences(evaluation)
    assert len(found) == len(said) and all(part in line for part, line in zip(said, found, strict=True))
    assert score_lines(evaluation)[1 : 1 + len(said)] == found


def test_of_a_sweep_every_setting_is_shown_that_differs():
    setup = setup_of(sweep={"learning_rate": [1e-3, 1e-4]})
    evaluation = score_agents(Runner([0.0, 0.0, 0.0, 0.6], [0.3, 0.3, 0.3, 0.3]), setup, 4)
    assert evaluation["actions"] == "sampled"
    assert [line.partition(":")[0] for line in choice_sentences(evaluation)] == [
        "how to play was chosen in 4 other episodes with learning_rate=0.001"
    ]


def test_runs_of_before_are_evaluated_as_they_were():
    config = setup_of().config()
    assert from_config(config).evaluation_actions == "auto"
    assert from_config(config | {"evaluation_actions": "greedy"}).evaluation_actions == "greedy"
    del config["evaluation_actions"]
    assert from_config(config).evaluation_actions == "greedy"


def drawing(names):
    """Return those of some agents that learn to draw, without those that write text."""
    kinds = {name: registry.part_class("agent", name) for name in names}
    writing = {name for name, cls in kinds.items() if any(".language." in base.__module__ for base in cls.__mro__)}
    return {name for name, cls in kinds.items() if cls.stochastic} - writing, {
        name for name in writing if not kinds[name].stochastic
    }


def test_agents_say_whether_they_learn_to_draw():
    policy_gradients = {"ppo", "reinforce", "impala", "a2c", "appo", "trpo"}
    soft = {"sac", "redq", "tqc", "sac-discrete", "cql", "cal-ql", "crossq", "recurrent-sac"}
    found, silent = drawing(registry.PORTS["agent"])
    assert found == policy_gradients | soft | {"bc", "iql"} and not silent


def test_a_search_plays_all_trials_one_way(tmp_path):
    from forage.studies.tuning.tune import tune

    with pytest.raises(ForageError, match="one way: --evaluation-actions greedy or sampled"):
        tune("ppo", "CartPole-v1", ["clip=0.1,0.2"], evaluation_actions="auto", directory=tmp_path / "search")


def test_the_mark_of_a_run_is_the_choice(tmp_path):
    small_run = tmp_path / "config.json"
    config = resolve("ppo", "CartPole-v1", steps=64, seeds=1).config() | {"evaluation_actions": "auto"}
    small_run.write_text(json.dumps(config))
    assert Run(tmp_path).actions == "greedy" and Run(tmp_path).evaluation_note == ""
    (tmp_path / "evaluation.json").write_text(
        '{"return": [1.0], "actions": "greedy", "choice": {"actions": "sampled"}}'
    )
    assert Run(tmp_path).actions == "sampled" and Run(tmp_path).evaluation_note == ", greedily"
