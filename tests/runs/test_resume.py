"""Stop anywhere, continue as if never stopped: bit for bit, for every agent and part, after any kind of stop."""

import json
import os
import random
import signal
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import small
from small import PPO, differing, differing_files
from tiers import gate_cases

from forage.config import part_options, registry
from forage.config.resolve import from_config, resolve
from forage.config.run_config import RunConfig
from forage.core import checkpoint
from forage.runs.run import Run

small.keep_compiled()
KILLS = int(os.environ.get("FORAGE_TEST_KILLS", "1"))  # FORAGE_TEST_KILLS=20 for a thorough look


def part(port: str, name: str, **options: Any) -> Any:
    return registry.build(port, name, options)


def lean(observation: Any, key: Any) -> Any:
    """Push the cart toward the side of the leaning pole."""
    return jnp.int32(observation[2] > 0)


class Case(NamedTuple):
    agent: str  # a row of small.ROWS
    parts: Any = dict  # makes the parts, once they are needed
    options: dict[str, Any] = {}
    sweep: dict[str, list[float]] = {}
    environment: str | None = None
    without: tuple[str, ...] = ()  # options of the row that have no effect there
    given: tuple[str, ...] = ()  # ports whose parts hold Python objects, which are given again


RND = {"embedding_size": 4, "hidden_sizes": (4,), "minibatch_size": 8}
CASES: dict[str, Case] = {
    **{name: Case(name) for name in small.AGENTS if name != "ppo"},
    "ppo-sweep": Case("ppo", sweep={"learning_rate": [1e-3, 1e-4]}),
    "ppo-parts": Case(
        "ppo",
        lambda: {
            "rewards": part("rewards", "rnd", **RND),
            "starts": part("starts", "levels", number=8),
        },
    ),
    "ppo-prioritised-levels": Case("ppo", lambda: {"starts": part("starts", "prioritised-levels", number=8)}),
    "ppo-wrapped": Case(
        "ppo",
        lambda: {
            "wrap": ["drift:gravity:0.5:5", "delay:1:1", "time-limit:30", "time-aware", "action-noise:0.2"],
            "tasks": part("tasks", "contexts", train=("action_noise=0:0.5", "limit=20:30")),
        },
    ),
    # Stopped while the queue is half full and nothing was learned, and after that.
    "impala-waits": Case("impala", lambda: {"memory": part("memory", "queue", lag=10)}),
    "impala-stale": Case(
        "impala",
        lambda: {"memory": part("memory", "queue", lag=3), "rewards": part("rewards", "normalise-return")},
        options={"gru_size": 4},
        environment="CartPole-masked",
    ),
    "reinforce-groups": Case(
        "reinforce", lambda: {"starts": part("starts", "groups", size=2)}, options={"baseline": "group"}
    ),
    "reinforce-drops": Case("reinforce", lambda: {"wrap": ["time-limit:6"]}, environment="CartPole-v1"),
    "dqn-parts": Case(
        "dqn",
        lambda: {
            "rewards": part("rewards", "rnd", **RND),
            "memory": part("memory", "prioritised", capacity=32),  # so small that it is overwritten
            "behaviour": part("behaviour", "epsilon-greedy", fraction=0.5),
        },
    ),
    "sac-renewed": Case("sac", options={"reset_interval": 20, "recycle_interval": 6, "dormant_threshold": 0.3}),
    "ppo-bang-bang": Case("ppo-continuous", options={"bang_bang": True}),
    "dqn-hindsight": Case(
        "dqn",
        lambda: {"memory": part("memory", "hindsight", capacity=64, strategy="episode")},
        environment="BitFlip-10",
    ),
    "ppo-self-play": Case(
        "ppo",
        lambda: {"behaviour": part("behaviour", "self-play", snapshots=3)},
        environment="boards:TicTacToe",
    ),
    "ppo-together": Case("ppo", options={"central_critic": True}, environment="small:Pair"),
    # Arrays without entries in its state, and images.
    "ppo-grid": Case("ppo", environment="grid:Empty-5x5", without=("hidden_sizes",)),
    "dqn-together": Case("dqn", environment="small:Pair"),
    "vdn-parts": Case(
        "vdn",
        lambda: {
            "rewards": part("rewards", "rnd", **RND),
            "memory": part("memory", "prioritised", capacity=32),
            "behaviour": part("behaviour", "epsilon-greedy", fraction=0.5),
        },
        options={"gru_size": 4, "burn_in": 1, "unroll": 2},
        environment="small:Pair",
    ),
    "host": Case("ppo", environment="gymnasium:CartPole-v1"),
    "host-waits": Case(
        "impala", lambda: {"memory": part("memory", "queue", lag=10)}, environment="gymnasium:CartPole-v1"
    ),
    "host-replay": Case("dqn", environment="gymnasium:CartPole-v1"),
    "host-whole": Case(
        "reinforce", lambda: {"environment_options": {"max_episode_steps": 6}}, environment="gymnasium:CartPole-v1"
    ),
    "host-nested": Case("sac-discrete", environment="gymnasium:Blackjack-v1"),  # a tuple of three numbers
}


def reward(name: str) -> Any:
    """Make a rewards part, with small networks if it has any."""
    known = {field.name for field in part_options.fields(registry.part_class("rewards", name))}
    return part(
        "rewards", name, **{field: value for field, value in (RND | {"deviation": 2.0}).items() if field in known}
    )


# Every rewards part stops and resumes, without a row of its own.
NAMED = ("rnd", "normalise-return", "weighted")  # which have one above
NAMED += ("scorer",)  # which needs a reward model and text: rewards/test_scorer.py
CASES |= {
    f"ppo-{name}": Case("ppo", lambda name=name: {"rewards": reward(name)})
    for name in registry.PORTS["rewards"]
    if name not in NAMED
}
CORE = tuple(CASES)
"""The names of the core's cases; `CASES` takes those of another package too."""


ELSEWHERE = {
    "data/test_offline.py": (
        *("bc", "iql", "td3-bc", "rebrac", "cql", "cal-ql", "discrete-cql", "discrete-bcq"),
        "decision-transformer",
    ),
    "agents/language/test_grpo.py": ("grpo",),
    "agents/language/test_relatives.py": (
        *("dr-grpo", "dapo", "rloo", "reinforce-plus-plus", "reinforce-plus-plus-baseline", "gspo", "cispo"),
        *("gmpo", "sapo", "distill"),
    ),
    "agents/language/test_language_agents.py": ("sft", "ppo-language"),
    "agents/language/test_recorded_text.py": ("dpo", "ipo", "reward-model", "process-reward"),
}
"""The agents that need a file or another run to learn from, and the tests that stop and resume them."""


def check_places(
    cases: Iterable[Case], elsewhere: Mapping[str, Iterable[str]], folder: Path, agents: Iterable[str]
) -> None:
    """Check that a case stops and resumes each agent, or a test of another file in `folder`, which names it."""
    here = {small.ROWS[case.agent][0] for case in cases}.intersection(agents)
    assert sorted([*here, *(name for names in elsewhere.values() for name in names)]) == sorted(agents)
    for file, names in elsewhere.items():
        text = (folder / file).read_text()
        assert "test_resumed_is_as_if_never_stopped" in text
        assert [name for name in names if name not in text] == [], file


def test_every_agent_is_stopped_and_resumed():
    check_places([CASES[name] for name in CORE], ELSEWHERE, Path(__file__).parents[1], registry.PORTS["agent"])


def setup_of(case: Case) -> RunConfig:
    agent, environment, options = small.ROWS[case.agent]
    options = {name: value for name, value in options.items() if name not in case.without}
    return resolve(
        agent,
        case.environment or environment,
        steps=480,
        seeds=[3, 7],
        agent_options=options | case.options,
        sweep=case.sweep,
        **case.parts(),
    )


def plain(leaf: Any) -> np.ndarray:
    return np.array(jax.random.key_data(leaf) if checkpoint.is_key(leaf) else leaf)


@pytest.mark.parametrize("name", gate_cases(CORE, ("dqn", "host")))
def test_resumed_is_as_if_never_stopped(name, tmp_path):
    case = CASES[name]
    setup = setup_of(case)
    runner = setup.runner()
    half = 7 * 16 // runner.steps_per_iteration  # an odd place: in the middle of episodes, memories and starts

    runner.begin()
    runner.advance(half)
    checkpoint.save_tree(tmp_path / "half.npz", runner.state, {"steps": runner.steps})
    before = jax.tree.map(plain, runner.state)
    runner.advance(half)

    config = json.loads(json.dumps(setup.config()))
    given = {port: getattr(setup, port) for port in case.given}
    again = from_config(config, **given).runner()
    state, header = checkpoint.load_tree(tmp_path / "half.npz", again.shapes())
    again.restore(state, header["steps"])
    again.advance(half)

    assert again.steps == runner.steps == 2 * half * runner.steps_per_iteration
    assert differing(again.state, runner.state) == []
    moved = differing(jax.tree.map(plain, runner.state), before)
    assert any("key" in leaf for leaf in moved)
    assert any(".agent" in leaf for leaf in moved), "nothing was learned in the second half, so nothing was tested"


LONG = [
    "--steps",
    f"{8 * KILLS}k",
    "--seeds",
    "2",
    *small.words(PPO),
    "--checkpoint-seconds",
    "0",
    "--evaluation-episodes",
    "2",
]


def steps_saved(directory) -> int:
    saved = sorted((directory / "checkpoints").glob("*.npz"))
    return int(saved[-1].stem) if saved else -1


def test_killed_at_random_moments(tmp_path, capsys):
    """SIGKILL leaves no time to tidy up. After several, the end is that of a run that was left alone."""
    command = ["train", "ppo", "CartPole-v1", "--rewards", "normalise-return", *LONG]
    assert small.run_command(capsys, *command, "--directory", tmp_path / "whole", "--quiet") == (0, "", "")

    killed, draw = tmp_path / "killed", random.Random()  # other moments each time
    process, landed = small.start(*command, "--directory", killed, "--quiet"), 0
    for kill in range(KILLS):
        before, until = steps_saved(killed), time.monotonic() + 120
        if kill != 1:  # and one as it may come, before anything is saved too
            while steps_saved(killed) <= max(before, 0) and process.poll() is None and time.monotonic() < until:
                time.sleep(0.005)
        time.sleep(draw.uniform(0, 0.5))
        if process.poll() is None:
            process.send_signal(signal.SIGKILL)
            landed += 1
        process.communicate()
        if kill < KILLS - 1:
            process = small.start("resume", killed, "--quiet")
    assert small.run_command(capsys, "resume", killed, "--quiet") == (0, "", "")
    assert landed >= min(KILLS, 2), "the run was over before it was killed; make it longer"

    assert Run(killed).config["devices"] == 2  # a device for each seed, in every process
    assert steps_saved(killed) == steps_saved(tmp_path / "whole")
    last = f"checkpoints/{steps_saved(killed):012d}.npz"
    assert differing_files(killed / last, tmp_path / "whole" / last) == []
    assert differing_files(killed / "agent.npz", tmp_path / "whole" / "agent.npz") == []
    assert sorted(p.name for p in killed.iterdir()) == sorted(p.name for p in (tmp_path / "whole").iterdir())
    assert not list(killed.rglob("*.tmp"))
    assert len(list((killed / "checkpoints").iterdir())) == 2
    assert json.loads((killed / "evaluation.json").read_text()) == json.loads(
        (tmp_path / "whole" / "evaluation.json").read_text()
    )

    left, right = (Run(d).rows for d in (killed, tmp_path / "whole"))
    assert [row["steps"] for row in left] == [row["steps"] for row in right]  # none twice, none missing
    for a, b in zip(left, right, strict=True):
        assert a.keys() == b.keys()
        for name in a.keys() - {"seconds", "steps_per_second"}:
            np.testing.assert_allclose(np.array(a[name], float), np.array(b[name], float), rtol=1e-4, err_msg=name)
    seconds = [row["seconds"] for row in left]
    assert seconds == sorted(seconds)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.thorough
def test_a_polite_stop_saves_and_says_how_to_go_on(tmp_path, number):
    """On the host, in real processes: stopped, resumed, and the same as never stopped."""
    environment, size = ("gymnasium:CartPole-v1", "1600") if number == signal.SIGINT else ("CartPole-v1", "200k")
    command = ["train", "ppo", environment, *small.words(PPO), "--seeds", "1", "--steps", size]
    command += ["--evaluation-episodes", "2", "--checkpoint-seconds", "1000", "--directory", tmp_path / "stopped"]
    process = small.start(*command, "--json")
    assert process.stdout is not None
    json.loads(process.stdout.readline())  # the first point of the curve
    process.send_signal(number)
    _, err = process.communicate(timeout=small.PATIENCE)
    assert process.returncode == 130
    assert err.count("\n") == 1
    assert f"forage resume {tmp_path / 'stopped'}" in err
    saved = steps_saved(tmp_path / "stopped")
    assert f"at step {saved:,}" in err
    assert 0 < saved < Run(tmp_path / "stopped").config["steps"]

    if number == signal.SIGINT:
        assert small.forage("resume", tmp_path / "stopped", "--quiet").returncode == 0
        command[-1] = tmp_path / "whole"
        assert small.forage(*command, "--quiet").returncode == 0
        last = f"checkpoints/{steps_saved(tmp_path / 'whole'):012d}.npz"
        assert differing_files(tmp_path / "stopped" / last, tmp_path / "whole" / last) == []
        rows = [[row["steps"] for row in Run(tmp_path / name).rows] for name in ("stopped", "whole")]
        assert rows[0] == rows[1]


@pytest.mark.parametrize("learned", [False, True], ids=["pending", "remembered"])
def test_what_is_learned_does_not_go_on_into_another_episode(learned):
    """If environments cannot be restored, new episodes begin after the newest known step."""
    options = {"num_envs": 2, "rollout_length": 4, "hidden_sizes": (8,), "learning_starts": 16, "batch_size": 4}
    rewards = part("rewards", "normalise-return")
    setup = resolve("dqn", "gymnasium:Acrobot-v1", steps=100, seeds=1, agent_options=options, rewards=rewards)
    runner, again = setup.runner(), setup.runner()
    runner.begin()
    runner.advance(3)
    loop = runner.loops[0]
    if learned:  # as after a failure in the middle of the next rollout
        loop.learn(loop.pending, loop.clock(16))
        loop.pending = None
    runner.failed = True
    again.restore(runner.state, runner.steps)
    found = again.loops[0]
    ring = found.state.memory if learned else found.pending
    newest = 11 if learned else 3
    running = runner.state[0].learner.rewards.running, found.state.rewards.running
    assert np.asarray(running[0]).all() and (not learned or not np.asarray(running[1]).any())
    assert ring.truncated[newest].all() and not ring.terminated[newest].any()
    assert not np.asarray(ring.truncated)[:newest].any()
    runner.close()
    again.close()
