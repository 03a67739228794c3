"""Reports of a run's numbers, the rights of its files, and mismatches."""

import dataclasses
import importlib.metadata
import json
import os
import pickle
from types import SimpleNamespace
from typing import Any

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import forage
from forage.config import part_options
from forage.config.resolve import resolve
from forage.core import checkpoint
from forage.core.plain import package_version
from forage.core.types import ForageError
from forage.environments.adapters.gymnasium import saving
from forage.evaluation.statistics import by_setting
from forage.loop.host.starts import join_states, split_states
from forage.loop.runner import Watch
from forage.nn.language.architecture import Architecture
from forage.nn.language.pretrained import PretrainedModel, sizes_of
from forage.nn.transformer import Transformer
from forage.rewards.bonuses.rnd import RND
from forage.rewards.environment import EnvironmentReward
from forage.rewards.scaling import Scale
from forage.rewards.weighted import WeightedRewards
from forage.runs import capacity, session, training
from forage.runs import display as progress
from forage.runs import provenance as versions
from forage.runs.curve import CurveRows, read_rows
from forage.runs.run import score_data
from forage.runs.scoring import counting_sentences, cut_sentence
from forage.studies import plan


def test_several_rewards_are_worth_what_their_weights_say():
    setup = resolve("dqn", "DeepSeaTreasure-v0", rewards=RND(inner=WeightedRewards(("treasure", "time"), (1.0, 0.0))))
    returns = np.array([[1.0, -1.0], [2.0, -3.0]])  # of two seeds: the plain sum is 0 and -1
    assert setup.rewards.score(returns, setup.spec).tolist() == [1.0, 2.0]
    assert setup.score_reward == "1 treasure"
    cost = WeightedRewards(("time",), (-0.5,))
    assert cost.score(returns, setup.spec).tolist() == [0.5, 1.5]
    # A scale, of which the factor is positive, leaves what is better: the score is of what is weighed within it.
    assert Scale(3.0, inner=cost).score(returns, setup.spec).tolist() == [0.5, 1.5]
    assert dataclasses.replace(setup, rewards=Scale(3.0, inner=cost)).score_reward == "-0.5 time"
    assert resolve("dqn", "CartPole-v1").score_reward is None
    with pytest.raises(ForageError, match=r"several rewards \(.*\), and EnvironmentReward does not say"):
        EnvironmentReward().score(returns, setup.spec)


def test_a_score_says_how_many_settings_and_cut_episodes():
    members = [{"seed": s, "learning_rate": rate} for rate in (0.1, 0.2) for s in (0, 1)]
    evaluation = {"episodes": 2, "cut": 1, "cut_after": 27_000, "reward": None, "episode_lengths": [[3, 27_000]]}
    found = score_data(by_setting(members, [1.0, 3.0, 5.0, 7.0]), evaluation)
    assert [one["score"] for one in found["settings"]] == [2.0, 6.0] and found["cut"] == 1 and "score" not in found
    assert cut_sentence(evaluation).startswith("1 of 2 episodes were cut after 27,000 steps")
    assert cut_sentence(evaluation | {"cut": 0}) == ""
    said = counting_sentences(evaluation | {"no_reward": 1})
    assert said == ["1 answer without a reward, of 2, is left out of the score", cut_sentence(evaluation)]
    assert score_data(by_setting(members, [1.0, 3.0, 5.0, 7.0]), evaluation | {"no_reward": 1})["no_reward"] == 1


class Evil:
    def __reduce__(self):
        return os.system, ("echo this ran >&2; exit 3",)


def test_a_snapshot_runs_nothing(capfd):
    env = gymnasium.make("CartPole-v1")
    env.reset(seed=0)
    state = saving.read_snapshot(saving.pack(saving.save_state(env), env), env)
    saving.restore_state(env, state)
    nested = b"\x80\x04cgymnasium.vector.utils.misc\nCloudpickleWrapper\n)\x81B"  # a class that unpickles again
    inner = pickle.dumps(Evil())
    nested += len(inner).to_bytes(4, "little") + inner + b"b."
    hidden = b"\x80\x04\x8c\x09gymnasium\x8c\x14logger.warnings.warn\x93\x8c\x01a\x85R."
    for data in (pickle.dumps(Evil()), pickle.dumps([{"deep": Evil()}]), hidden, nested, b"cbuiltins\neval\n(V1\ntR."):
        with pytest.raises(ForageError, match=r"A saved state (is a pickle|cannot be read)"):
            saving.read_snapshot(data, env)
        with pytest.raises(ForageError, match=r"A saved state (is a pickle|cannot be read)"):
            saving.restore_state(env, [(data, {})])
    assert "this ran" not in capfd.readouterr().err
    env.close()


def test_states_of_a_simulator_in_one_piece():
    for states in ({}, {3: b"", 7: b"abc", 2**40: b"x" * 100}):
        assert split_states(join_states(states)) == states
    assert split_states(b"") == {}
    for wrong in (pickle.dumps({1: b"a"}), join_states({1: b"abc"})[:-1], b"short"):
        with pytest.raises(ForageError, match="cannot be read"):
            split_states(wrong)


def test_the_agent_alone_is_read(tmp_path):
    path = tmp_path / "run" / "checkpoints" / "1.npz"
    saved = {"agent": jnp.arange(3.0), "memory": jnp.zeros(5), "kept": np.frombuffer(b"whatever", np.uint8)}
    checkpoint.save_tree(path, saved, {"steps": 1})
    found, header = checkpoint.load_tree(path, jnp.zeros(3), "['agent']")
    assert found.tolist() == [0, 1, 2] and header["steps"] == 1
    with pytest.raises(ForageError, match=r"lacks \['agent'\]\['new'\], needed here. Use .*versions\.json"):
        checkpoint.load_tree(path, {"new": jnp.zeros(3)}, "['agent']")


def test_what_does_not_fit_is_refused_before_anything_is_made(monkeypatch):
    setup = resolve("dqn", "CartPole-v1", seeds=2)
    runner = setup.runner()
    needed = capacity.bytes_of(runner)
    # Two seeds of 100,000 transitions: two observations of four floats, action, reward, source, two flags.
    assert needed["memory"] == 2 * 100_000 * (2 * 16 + 4 + 4 + 4 + 2)
    assert capacity.memory_lines(runner) == []
    monkeypatch.setattr(capacity, "WORTH_SAYING", 10**6)
    assert capacity.memory_lines(runner) == [
        "memory: 9.2 MB, 46 bytes a transition, 100,000 of them for each of 2 seeds"
    ]
    monkeypatch.setattr(capacity, "free_here", lambda: 10**6)
    with pytest.raises(
        ForageError, match=r"2 seeds takes .* MB of memory, and 1 MB are free .*memory \(uniform\) keeps"
    ):
        capacity.check_memory(runner, setup.names)
    monkeypatch.setattr(capacity, "free_here", lambda: None)
    capacity.check_memory(runner, setup.names)


def test_a_language_model_that_does_not_fit_is_refused_with_options_that_do(monkeypatch):
    sizes = {"vocabulary": 520, "width": 256, "layers": 2, "heads": 4, "inner": 1024, "length": 256}
    network = jax.eval_shape(lambda: Transformer(jax.random.key(0), Architecture(**sizes)))
    options = {"model": PretrainedModel("large", "0", sizes_of(network)), "num_envs": 8, "group_size": 4}
    setup = resolve("grpo", "text:addition", agent_options=options, seeds=1, steps=64)
    state = capacity.state_shapes(setup.agent, setup.spec)
    working = setup.agent.working_bytes(setup.spec, state)
    weights = sum(leaf.size * 4 for leaf in jax.tree.leaves(network))
    assert working["gradients"] == 2 * weights and working["files"] == weights
    needed = {"agent": capacity.tree_bytes(state)}
    assert 3 * weights < needed["agent"] < 3.01 * weights  # with both moments of Adam
    peak = capacity.peak_bytes(needed, working)
    capacity.check_update(setup.agent, setup.spec, needed, working, peak, "here")
    with pytest.raises(ForageError, match=r"takes .* MB are free here: weights and optimiser .* MB.*--rank 8 \(.* fit"):
        capacity.check_update(setup.agent, setup.spec, needed, working, peak - 10**6, "here")
    with pytest.raises(ForageError, match=r"--remat true .* would take .*, so it needs a smaller model"):
        capacity.check_update(setup.agent, setup.spec, needed, working, 10**6, "here")


def test_free_memory_is_the_least_that_anybody_says(tmp_path):
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/meminfo").write_text("MemTotal: 9 kB\nMemAvailable:    4000 kB\n")
    assert capacity.free_here(tmp_path) == 4_096_000
    group = tmp_path / "sys/fs/cgroup"
    group.mkdir(parents=True)
    for name, text in (("memory.max", "5000"), ("memory.current", "4000"), ("memory.stat", "inactive_file 500\n")):
        (group / name).write_text(text)
    assert capacity.free_here(tmp_path) == 1500
    (group / "memory.max").write_text("max\n")
    assert capacity.free_here(tmp_path) == 4_096_000
    assert [capacity.byte_text(n) for n in (2500, 4_200_000_000)] == ["2.5 kB", "4.2 GB"]


def test_the_fingerprint_of_the_code(tmp_path):
    """Folders above the package and code for pictures do not count; code that decides an evaluation's seeds does."""
    found = []
    root = tmp_path / "evaluation" / "forage"
    for folder in ("environments", "runs", "loop", "cli"):
        (root / folder).mkdir(parents=True)
    for name in ("runs/scoring.py", "loop/visits.py", "environments/drawing.py", "cli/entry.py"):
        (root / name).write_text("old")
    for name in (None, "environments/drawing.py", "cli/entry.py", "runs/scoring.py", "loop/visits.py"):
        if name:
            (root / name).write_text("new")
        found.append(versions.code_hash.__wrapped__(root))  # not remembered
    assert found[0] == found[1] == found[2] and len(set(found[2:])) == 3


class ExplainedHelper:
    size: int = 3  # how large it is
    mark: str = "#"  # a default
    # that wraps onto a second line

    # This heads what follows.
    tail: float = 0.5
    names: tuple[str, ...] = (
        "a",
        "b",
    )  # of all


def test_what_the_comment_behind_a_field_says():
    assert part_options.field_comments(ExplainedHelper) == {
        "size": "how large it is",
        "mark": "a default that wraps onto a second line",
        "names": "of all",
    }
    assert part_options.field_comments(type("Made", (), {})) == {}


def test_a_run_never_outlasts_its_clock():
    setup = resolve("ppo", "CartPole-v1", steps=2_147_000_000)
    each = setup.agent.num_envs * setup.agent.rollout_length
    most = (2**31 - 1) // each * each
    assert resolve("ppo", "CartPole-v1", steps=most).steps == most
    with pytest.raises(ForageError, match=f"from 1 to {most:,} steps"):
        resolve("ppo", "CartPole-v1", steps=2**31 - 1)
    assert json.dumps(most)


def test_an_evaluation_during_training_keeps_every_column(tmp_path, monkeypatch):
    found = {"steps": 64, "episodes": 2, "members": [{"seed": 0}, {"seed": 1}], "actions": "greedy", "reward": None}
    found |= {"return": [1.0, 2.0], "return/time": [-1.0, -2.0], "is_success": [0.5, None], "cut": 1, "cut_after": 9}
    found |= {"no_reward": 2}
    found |= {"episode_returns": [[1.0, 1.0], [2.0, 2.0]], "episode_lengths": [[9, 1], [1, 1]]}
    monkeypatch.setattr(session, "evaluate_agents", lambda *arguments: found)
    tracked = []
    one = session.Session.__new__(session.Session)
    one.runner = SimpleNamespace(steps=64, conversations=[])
    one.setup = SimpleNamespace(settings=1, members=found["members"], evaluation_actions="auto", parent=None)
    one.episodes, one.display, one.watch = 2, progress.Progress(), Watch()
    one.evaluations, one.trackers = CurveRows(tmp_path / "evaluations.jsonl"), [SimpleNamespace(write=tracked.append)]
    one.evaluate(1)
    (row,) = read_rows(tmp_path / "evaluations.jsonl")
    columns = {"return": [1.0, 2.0], "return/time": [-1.0, -2.0], "is_success": [0.5, None]}
    assert row == {"steps": 64, "cut": 1, "no_reward": 2} | columns
    one.track_again(SimpleNamespace(rows=[{"steps": 32, "return": [0.0, 0.0]}], evaluations=[row]))
    told = {"steps": 64} | {f"evaluation/{name}": value for name, value in columns.items()}
    assert tracked == [told, {"steps": 32, "return": [0.0, 0.0]}, told]


def test_a_checkout_that_is_not_installed_has_a_version(monkeypatch):
    """A package that is only on the path has no metadata to read."""

    def missing(name):
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "version", missing)
    assert package_version("forage-rl") == "a checkout"


SMALL: dict[str, Any] = {"num_envs": 4, "group_size": 2}


def score(completions: Any) -> list[float]:
    return [0.0] * len(completions)


@pytest.fixture
def prompts(tmp_path):
    """Return a run on prompts of a file."""
    (tmp_path / "p.jsonl").write_text('{"prompt": "a"}\n{"prompt": "b"}\n')
    setup = resolve("grpo", f"text:{tmp_path / 'p.jsonl'}", agent_options=SMALL, seeds=1, rewards=score)
    assert setup.spec.action_space.length == 64
    return setup


def peak_of(setup, response):
    spec = capacity.with_answers(setup.spec, response, True)
    state = capacity.state_shapes(setup.agent, spec)
    return capacity.peak_bytes({"agent": 0}, setup.agent.working_bytes(spec, state))


def test_answers_to_prompts_are_as_long_as_memory_allows(prompts):
    """The default of an answer's tokens is halved until the run fits; a number that is given stays."""
    sizes = {response: peak_of(prompts, response) for response in (64, 32, 16)}
    frees = (None, sizes[64], sizes[64] - 1, sizes[32] - 1, sizes[16] - 1)
    found = [capacity.shorter_answers(prompts, lambda: {"agent": 0}, free) for free in frees]
    assert found == [None, None, 32, 16, None]
    for option in ("response", "chunk"):
        options = prompts.environment_config["options"] | {option: 8}
        fixed = dataclasses.replace(prompts, environment_config=prompts.environment_config | {"options": options})
        assert capacity.shorter_answers(fixed, lambda: {"agent": 0}, 1) is None


@pytest.mark.thorough
def test_a_plan_and_a_run_say_that_answers_are_shorter(prompts, monkeypatch, tmp_path, capsys):
    state = capacity.tree_bytes(capacity.state_shapes(prompts.agent, prompts.spec))
    monkeypatch.setattr(capacity, "free_on", lambda devices: state + peak_of(prompts, 64) - 1)
    of_environment = {"rewards": prompts.environment_config["options"]["rewards"]}
    line = plan.memory_line(plan.memory_of("grpo", prompts.environment_config["id"], SMALL, of_environment))
    assert line.endswith("with answers of at most 32 tokens, as longer ones would not fit (--env.response)")
    needed = capacity.bytes_of(prompts.runner())
    monkeypatch.setattr(training, "free_on", lambda devices: sum(needed.values()) + peak_of(prompts, 64) - 1)
    monkeypatch.setattr(training, "check_memory", lambda runner, names: None)
    given = {"agent_options": SMALL, "seeds": 1, "rewards": score, "steps": 4, "evaluation_episodes": 1}
    run = forage.train("grpo", prompts.environment_config["id"], directory=tmp_path / "run", display="plain", **given)
    said = capsys.readouterr()
    assert "Answers have at most 32 tokens, as longer ones would not fit" in said.out + said.err
    assert run.config["environment"]["options"]["response"] == 32
