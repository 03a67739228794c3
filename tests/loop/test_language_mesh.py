"""Language models on a mesh of devices: numbers equal to those of one device, in a part of its memory.

The devices are eight virtual ones of the CPU, in a process of its own: JAX settles on its devices at their first use.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
import small
from recorded_helpers import rows_of, write_model, write_rows
from resuming_helpers import EvenTokens, weights

import forage
from forage.config.resolve import resolve
from forage.core.mesh import parse_mesh
from forage.core.prng import key
from forage.nn.language.architecture import Architecture
from forage.nn.transformer import Transformer

SIZES = {"vocabulary": 520, "width": 64, "layers": 2, "heads": 8, "inner": 128, "length": 256}
FAMILIES = {
    "llama": Architecture(**SIZES, tied=False),
    "qwen2": Architecture(**SIZES, key_heads=2, family="qwen2", attention_bias=True),
    "qwen3_moe": Architecture(
        **SIZES, key_heads=4, family="qwen3_moe", experts=8, chosen=2, expert_inner=32, normalised=True
    ),
}
OPTIONS = {
    "grpo": {"num_envs": 8, "group_size": 4, "divergence": 0.1, "learning_rate": 3e-4},
    "sft": {"batch_size": 8, "learning_rate": 3e-4, "longest": 32},
}
UPDATES = 3


def setup_of(agent: str, family: str, folder: str, **options: Any) -> Any:
    """Return a run of a tiny random model."""
    model = Transformer(jax.random.key(0), FAMILIES[family])
    own = {"model": model, **OPTIONS[agent], **options}
    if agent == "grpo":
        return resolve("grpo", "text:addition", agent_options=own, rewards=EvenTokens(), seeds=[1], steps=240)
    file, words = (
        write_rows(Path(folder) / "rows.jsonl", rows_of("completion", 24)),
        write_model(Path(folder) / "words"),
    )
    return resolve("sft", data=file, agent_options=own | {"tokenizer": words}, seeds=[1], steps=30)


def advance_runner(runner: Any) -> tuple[list[Any], list[Any]]:
    """Make some updates. Return the texts that were written before each of them, and metrics."""
    written: list[Any] = []
    if hasattr(runner, "loops"):
        learn = runner.loops[0].learn

        def watch(rollout: Any, clock: Any) -> Any:
            written.append((rollout.action, rollout.policy_info))
            return learn(rollout, clock)

        runner.loops[0].learn = watch
    return written, [runner.advance(1).metrics for _ in range(UPDATES)]


def numbers(tree: Any) -> list[np.ndarray]:
    """Return the leaves of a tree, keys as their data."""
    leaves = jax.tree.leaves(tree)
    return [
        np.asarray(jax.random.key_data(x) if jax.dtypes.issubdtype(x.dtype, jax.dtypes.prng_key) else x, float)
        for x in leaves
    ]


def difference(one: Any, other: Any) -> float:
    """Return the largest difference of two trees of the same numbers, of large ones as a share of them."""
    pairs = zip(numbers(one), numbers(other), strict=True)
    return max(float((np.abs(a - b) / np.maximum(np.abs(b), 1.0)).max(initial=0.0)) for a, b in pairs)


def share_apart(one: Any, other: Any, by: float = 1e-5) -> float:
    """Return the share of numbers that are farther apart than `by`, of large ones as a share of them.

    Adam divides a gradient by its own size: a weight whose gradient is rounding alone moves with the rounding.
    """
    pairs = list(zip(numbers(one), numbers(other), strict=True))
    apart = sum(int((np.abs(a - b) > by * np.maximum(np.abs(b), 1.0)).sum()) for a, b in pairs)
    return apart / sum(a.size for a, _ in pairs)


def largest_part(tree: Any) -> int:
    """Return the bytes of a tree on the device that has the most of it."""
    held: dict[int, int] = {}
    for leaf in jax.tree.leaves(tree):
        for shard in leaf.addressable_shards:
            held[shard.device.id] = held.get(shard.device.id, 0) + shard.data.nbytes
    return max(held.values())


def cache_part(runner: Any, network: Any) -> int:
    """Return the bytes of the cache of 8 texts of 32 tokens on the device that has the most of it."""
    loop = runner.loops[0]

    def extend_cache(network: Any, tokens: Any) -> Any:
        return network.extend(network.cache(*tokens.shape), tokens)[1].layers

    return largest_part(loop.program("cache", extend_cache)(network, np.ones((8, 32), np.int32)))


def compare_with_one(agent: str, family: str, words: str, folder: str, **options: Any) -> dict[str, Any]:
    """Train on a mesh and on one device, and return how far apart they are and which share of one's bytes each has."""
    setup = setup_of(agent, family, folder, **options)
    found = []
    for shape in (1, parse_mesh(words)):
        runner = setup.runner(shape)
        runner.begin()
        written, metrics = advance_runner(runner)
        state = runner.loops[0].state.agent if agent == "grpo" else runner.state.learner.agent
        held = {"network": largest_part(state.network), "optimiser": largest_part(state.optimiser)}
        if agent == "grpo":
            held["cache"] = cache_part(runner, state.network)
        found.append((state, written, metrics, held, runner.spread))
    (one, texts, measured, alone, _), (many, others, again, held, said) = found
    return {
        "apart": difference(many, one),
        "share": share_apart(many, one),
        "moved": difference(one.network, setup.runner(1).learner.agent.init(key(0), setup.spec).network),
        "tokens": all(np.array_equal(a[0], b[0]) for a, b in zip(texts, others, strict=True)),
        "metrics": max(difference(a, b) for a, b in zip(again, measured, strict=True)),
        "shares": {name: held[name] / alone[name] for name in held},
        "said": said,
    }


def move_run(folder: str) -> dict[str, Any]:
    """Train from recorded text on one mesh, resume on others and on one device, and compare with one device."""
    place = Path(folder)
    given: dict[str, Any] = {
        "data": write_rows(place / "rows.jsonl", rows_of("completion", 24)),
        "model": write_model(place / "model"),
        "learning_rate": 3e-3,
        "batch_size": 8,
        "seeds": [1],
        "display": "quiet",
    }
    forage.train("sft", steps=8, directory=place / "whole", devices=1, **given)
    forage.train("sft", steps=2, directory=place / "parts", mesh="data:8", **given)
    said = []
    for steps, words in ((4, "data:2,model:2"), (6, "data:1"), (8, None)):
        forage.resume(place / "parts", steps=steps, mesh=words, display="quiet")
        said.append(json.loads((place / "parts" / "history.jsonl").read_text().splitlines()[-1]))
    one, two = weights(place / "whole"), weights(place / "parts")
    apart = {name: float(np.abs(one[name] - two[name]).max(initial=0.0)) for name in one}
    return {
        "apart": max(apart.values()),
        "said": said,
        "config": json.loads((place / "parts" / "config.json").read_text()),
    }


def on_eight(code: str) -> Any:
    """Return the JSON that code prints in a process with eight devices."""
    kept = {name: value for name, value in os.environ.items() if name != "JAX_NUM_CPU_DEVICES"}
    flags = "--xla_force_host_platform_device_count=8 --xla_cpu_collective_call_terminate_timeout_seconds=1200"
    tests = Path(__file__).parents[1]
    helpers = {str(path.parent) for path in tests.rglob("*_helpers.py")}
    places = [str(Path(__file__).parent), str(tests), str(tests.parent), *sorted(helpers)]
    kept |= {"XLA_FLAGS": f"{kept.get('XLA_FLAGS', '')} {flags}", "PYTHONPATH": os.pathsep.join(places)}
    kept |= {"NPROC": "16"}  # threads of XLA, as `prepare_devices` asks for where JAX is not in use yet
    code = f"import json, test_language_mesh as t; print(json.dumps({code}))"
    done = subprocess.run(
        [sys.executable, "-c", code], env=kept, capture_output=True, text=True, timeout=small.PATIENCE
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("agent", "family", "words", "options"),
    [
        ("grpo", "llama", "data:8", {}),
        ("grpo", "llama", "model:8", {}),
        ("grpo", "qwen2", "data:2,model:4", {"accumulate": 2, "minibatches": 2}),
        ("grpo", "qwen3_moe", "data:2,model:4", {"remat": True}),
        ("grpo", "llama", "data:4,model:2", {"rank": 4, "chunk": 40}),
        ("sft", "llama", "data:8", {}),
        ("sft", "qwen2", "data:2,model:4", {"accumulate": 2, "remat": True}),
        ("sft", "llama", "model:8", {"dtype": "bfloat16"}),
    ],
)
def test_eight_devices_are_one_in_a_sixth_of_its_memory(agent, family, words, options, tmp_path):
    found = on_eight(f"t.compare_with_one({agent!r}, {family!r}, {words!r}, {str(tmp_path)!r}, **{options!r})")
    rounded = options.get("dtype") == "bfloat16"
    assert found["moved"] > 5e-4 and found["apart"] < (2e-2 if rounded else 1e-4)
    assert rounded or found["share"] < 1e-4
    assert found["tokens"] and found["metrics"] < (2e-2 if rounded else 1e-5)
    assert max(found["shares"].values()) <= 1 / 6, found["shares"]
    assert found["said"].startswith("weights in parts on 8 devices")
    assert ("model:4 does not divide 2 heads of keys" in found["said"]) == (family == "qwen2")


@pytest.mark.thorough
def test_a_run_goes_on_with_another_mesh(tmp_path):
    found = on_eight(f"t.move_run({str(tmp_path)!r})")
    assert found["apart"] < 1e-5 and found["config"]["mesh"] == "data:8"
    assert [one.get("versions") for one in found["said"]] == ["8 devices (here 4)", "8 devices (here 1)", None]
