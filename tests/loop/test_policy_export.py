"""A policy acts elsewhere as it does here: in plain NumPy, in ONNX, and its weights by name."""

import dataclasses
import functools
import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import small
from gymnasium import spaces

from forage.config import registry
from forage.core import prng
from forage.core.columns import Column, Columns
from forage.core.spaces import MixedSpace, Tokens, from_json, to_json
from forage.core.types import ForageError, Spec
from forage.environments import make, spec_of
from forage.loop.export import by_columns, in_numpy
from forage.loop.manifest import describe_policy, split_columns
from forage.loop.plain import OPERATIONS, PlainPolicy, decode_columns, encode_columns
from forage.loop.policy import Policy
from forage.loop.program import trace_function

small.keep_compiled()
FEED_FORWARD = ("ppo", "ppo-continuous", "dqn", "sac", "td3")
OTHERS = ("ppo-gru", "dqn-gru", "sac-discrete", "open-es", "vdn")


@functools.lru_cache
def first_state(agent, spec):
    return small.at_once(lambda: agent.init(prng.key(1), spec))


def policy_of(kind: str, state=None, **more) -> Policy:
    """Return an untrained agent of `small.AGENTS`; `state`: a function that makes its state."""
    name, environment, options = small.ROWS[kind]
    agent, made = registry.build("agent", name, options | more), make(environment)
    spec = spec_of(made, environment)
    made = state(agent, spec) if state else first_state(agent, spec)
    return Policy(agent, made, spec)


def random_state(agent, spec):
    """Return a state of random numbers, which takes no compilation as `agent.init` does."""
    random = np.random.default_rng(3)
    shapes = jax.eval_shape(lambda: agent.init(prng.key(3), spec))
    return jax.tree.map(lambda x: jnp.asarray(random.normal(size=x.shape), x.dtype), shapes)


def observations(policy: Policy, number: int) -> list:
    random = np.random.default_rng(0)

    def draw(like):
        return random.normal(size=like.shape).astype(like.dtype)

    return [jax.tree.map(draw, policy._like) for _ in range(number)]


@pytest.mark.parametrize("kind", [*FEED_FORWARD, *(pytest.param(k, marks=pytest.mark.thorough) for k in OTHERS)])
def test_plain_numpy_acts_alike(kind, tmp_path):
    policy = policy_of(kind)
    plain = PlainPolicy(policy.export(tmp_path / "policy.npz"))
    seen = observations(policy, 20)
    for observation in seen:
        np.testing.assert_allclose(plain.act(observation), policy.act(observation), atol=1e-5)
    if kind in FEED_FORWARD:
        np.testing.assert_allclose(plain.act(np.stack(seen)), policy.act(np.stack(seen)), atol=1e-5)


VECTOR_01 = spaces.Box(0, 1, (1,), np.float32)
VECTOR, CHOICE = spaces.Box(np.float32([-1, -np.inf]), np.float32([1, np.inf])), spaces.Discrete(3)
SEEN = spaces.Dict({"action": VECTOR, "in": spaces.Dict({"x": VECTOR}), "words": Tokens(3, 7), "n": CHOICE})
SPACES = {  # observations and actions of a policy, and the names of its inputs
    "dictionary": (SEEN, spaces.MultiDiscrete([2, 3]), ["observation.action", "in.x", "n", "words"]),
    "mask": (
        spaces.Dict({"observation": VECTOR, "action_mask": spaces.MultiBinary(3)}),
        CHOICE,
        ["action_mask", "observation"],
    ),
}


@pytest.mark.parametrize("kind", SPACES)
def test_the_manifest_names_what_goes_in_and_comes_out(kind, tmp_path):
    seen, acts, names = SPACES[kind]
    agent = registry.build("agent", "ppo", {"hidden_sizes": (4,)})
    spec = Spec(kind, seen, acts, (), 1, horizon=5)
    policy = Policy(agent, random_state(agent, spec), spec)
    path = policy.export(tmp_path / "policy.npz")
    manifest = json.loads((tmp_path / "policy.npz.json").read_text())
    assert [one["name"] for one in manifest["inputs"]] == names
    assert [one["name"] for one in manifest["outputs"]] == ["action"] and manifest["memory"] == []
    for space, name in ((seen, "observation_space"), (acts, "action_space")):
        assert to_json(from_json(manifest[name])) == to_json(space)
    assert manifest["versions"]["jax"] == jax.__version__ and manifest["normalisation"] == {}
    plain = PlainPolicy(path)
    assert plain.manifest == manifest
    seen.seed(0)
    rows = [seen.sample() for _ in range(8)]
    rows = jax.tree.map(lambda *leaves: np.stack(leaves), *[dict_of(row) for row in rows])
    compiled = jax.vmap(lambda row: policy._decide(policy.state, (), row, prng.key(0), False)[0])
    np.testing.assert_array_equal(plain.act(rows), small.compute(compiled, rows))


TABLE = Columns(
    (
        Column("stock", mean=20.0, deviation=8.0, typical=18.0),
        Column("day", "category", ("Mon", "Tue", "3"), typical="Tue"),
        Column("promo", "boolean", ("no", "yes")),
        Column("since", "date", mean=20_000.0, deviation=100.0),
    ),
    (Column("order", "category", ("none", "small", "large")), Column("fast", "boolean", ("nein", "ja"))),
)
ROWS = {
    "stock": [3, None, "7.5", float("nan"), -1e6],
    "day": ["Mon", "", "3", "Tue", " Tue "],
    "promo": ["yes", False, "nein", 1, "No"],
    "since": ["2024-01-31", "2024-02-30T12:30", "2024-3-1 06:00:30Z", "2026-01-02", "1969-12-31"],
}
TABLES = {
    "several": TABLE,
    "joint": dataclasses.replace(TABLE, joint=True),
    "one": dataclasses.replace(TABLE, action=TABLE.action[:1]),
    "numbers": dataclasses.replace(TABLE, action=(Column("dose", low=0.5, high=2.0), Column("heat", low=3, high=5))),
}


def table_policy(table):
    """Return a policy of random numbers for a table's columns."""
    agent = registry.build("agent", "ppo", {"hidden_sizes": (4,)})
    spec = Spec("shop", table.observation_space, table.action_space, (), 1, horizon=5, columns=table)
    return Policy(agent, random_state(agent, spec), spec)


@pytest.mark.parametrize("kind", TABLES)
def test_columns_act_by_name_in_a_file(kind):
    table = TABLES[kind]
    columns = describe_policy(table_policy(table))["columns"]
    assert Columns.from_json(columns) == table
    encoded = encode_columns(columns, ROWS)
    np.testing.assert_array_equal(encoded, table.encode_observation(ROWS))
    one = {name: cells[0] for name, cells in ROWS.items()}
    np.testing.assert_array_equal(encode_columns(columns, one), encoded[0])
    table.action_space.seed(0)
    actions = np.array([table.action_space.sample() for _ in range(20)])
    for action in (actions, actions[0]):
        found, wanted = decode_columns(columns, action), table.decode_action(action)
        assert list(found) == list(wanted)
        assert all(np.array_equal(found[name], wanted[name]) for name in wanted)


def test_a_table_is_acted_for_by_name(tmp_path):
    policy = table_policy(TABLE)
    plain = PlainPolicy(policy.export(tmp_path / "policy.npz"))
    wanted = policy.act(ROWS)
    assert {name: cells.tolist() for name, cells in plain.act(ROWS).items()} == {
        name: cells.tolist() for name, cells in wanted.items()
    }
    assert plain.act({name: cells[0] for name, cells in ROWS.items()}) == {n: wanted[n][0] for n in wanted}
    assert plain.manifest["inputs"][0]["columns"] == ["stock", "day=Mon", "day=Tue", "day=3", "promo", "since"]
    for change, said in (
        ({"stok": 1}, "no column 'stok'; an observation has stock, day, promo, since"),
        ({"day": "Wed"}, "Column day takes Mon, Tue, 3, not 'Wed'"),
        ({"stock": "many"}, "Column stock takes a finite number, not 'many'"),
        ({"stock": float("inf")}, "Column stock takes a finite number, not 'inf'"),
        ({"since": "2024-13-01"}, "Column since takes a date such as 2024-01-31"),
        ({"promo": None}, "Column promo has no value"),
        ({"promo": [1, 0]}, "Columns have one value each, or lists of one length"),
    ):
        with pytest.raises(ValueError, match=said):
            plain.act({name: cells[0] for name, cells in ROWS.items()} | change)
    with pytest.raises(ValueError, match="Column since is missing"):
        plain.act({name: cells for name, cells in ROWS.items() if name != "since"})


@pytest.mark.parametrize("kind", TABLES)
def test_columns_are_inputs_and_outputs_of_a_model(kind):
    """The program that becomes an ONNX model takes codes of each column and acts as the policy does."""
    table = TABLES[kind]
    policy = table_policy(table)
    manifest = split_columns(describe_policy(policy), table)
    numbers = [column.parse(ROWS[column.name]) for column in table.observation]
    program = by_columns(lambda row: [policy._decide(policy.state, (), row, prng.key(0), False)[0]], table, 0)
    inputs = [np.asarray(x, entry["dtype"]) for x, entry in zip(numbers, manifest["inputs"], strict=True)]
    found = small.compute(jax.vmap(lambda *row: tuple(program(*row))), *inputs)
    wanted = policy.act(ROWS)
    for entry, codes in zip(manifest["outputs"], found, strict=True):
        assert codes.dtype == entry["dtype"]
        if "names" in entry:
            assert np.array(entry["names"])[codes].tolist() == wanted[entry["name"]].tolist()
        else:
            np.testing.assert_allclose(codes, wanted[entry["name"]], atol=1e-4)


def dict_of(row):
    """Return nested dictionaries as plain ones, whose keys JAX sorts."""
    return {name: dict_of(part) for name, part in row.items()} if isinstance(row, dict) else row


def test_the_manifest_has_the_memory_and_the_normalisation():
    remembers, normalises = (describe_policy(policy_of(kind, random_state)) for kind in ("ppo-gru", "ppo-continuous"))
    assert [(one["name"], one["output"], one["shape"]) for one in remembers["memory"]] == [
        ("memory0", "next_memory0", [4]),
        ("memory1", "next_memory1", [2]),
    ]
    assert all(not any(one["start"]) for one in remembers["memory"])
    norm = policy_of("ppo-continuous", random_state).state.norm
    assert normalises["normalisation"] == {
        "observation": {"mean": norm.mean.tolist(), "variance": norm.variance.tolist()}
    }


@pytest.mark.thorough
def test_the_manifest_nests_mixed_actions(tmp_path):
    nested = spaces.Dict({"arm": spaces.Discrete(2), "to": spaces.Tuple([VECTOR_01, spaces.Discrete(3)])})
    space = MixedSpace(spaces.MultiDiscrete([2, 3]), VECTOR_01, nested)
    seen = spaces.Dict({"observation": VECTOR, "action_mask": spaces.MultiBinary(5)})
    spec = Spec("mixed", seen, space, (), 1, horizon=5)
    agent = registry.build("agent", "sac", {"hidden_sizes": (4,)})
    policy = Policy(agent, random_state(agent, spec), spec)
    plain = PlainPolicy(policy.export(tmp_path / "policy.npz"))
    assert plain.manifest["action_structure"] == {"arm": 0, "to": [1, 2]}
    assert [one["name"] for one in plain.manifest["outputs"]] == ["action.arm", "action.to.0", "action.to.1"]
    row = {"observation": np.float32([[0.5, 2.0]]), "action_mask": np.int8([[0, 1, 1, 0, 0]])}
    found, wanted = plain.act(row), policy.act(row)
    assert found["arm"].tolist() == wanted["arm"].tolist() == [1] and found["to"][1].tolist() == [0]
    np.testing.assert_allclose(found["to"][0], wanted["to"][0], atol=1e-5)


@pytest.mark.thorough
def test_a_served_model_acts_as_the_policy(tmp_path):
    """Memory, mixed actions, masks and tables through an ONNX runtime; where that is installed."""
    pytest.importorskip("jax2onnx", reason="jax2onnx is not installed")
    pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
    from forage.studies.serve import open_policy

    for policy in (policy_of("ppo-gru", random_state), policy_of("vdn", random_state), policy_of("sac", random_state)):
        path = policy.export(tmp_path / "policy.onnx")
        served, plain = open_policy(path), PlainPolicy(policy.export(tmp_path / "policy.npz"))
        for seen in np.stack(observations(policy, 6)).reshape(2, 3, *policy._like.shape):
            np.testing.assert_allclose(served.act(seen), plain.act(seen), atol=1e-5)
    for table in TABLES.values():
        served = open_policy(table_policy(table).export(tmp_path / "policy.onnx"))
        found, wanted = served.act(ROWS), table_policy(table).act(ROWS)
        for name, cells in wanted.items():
            if cells.dtype.kind == "U":
                assert found[name].tolist() == cells.tolist()
            else:
                np.testing.assert_allclose(found[name], cells, atol=1e-4)


def test_lookups_in_numpy():
    table = np.arange(24.0).reshape(2, 3, 4)
    indices = np.array([[[1], [0]]])
    np.testing.assert_array_equal(OPERATIONS["gather"](table, indices, axes=[1], rest=[0, 3]), table[:, [[1, 0]]])
    beyond = OPERATIONS["gather"](table, np.array([[9, -1]]), axes=[0, 1], rest=[1])
    np.testing.assert_array_equal(beyond, table[1:, 0])


def test_an_array_is_unstacked_in_numpy():
    """JAX 0.12 has an operation for `first, second = array`, and earlier ones have slices."""
    operation: Any = SimpleNamespace(primitive=SimpleNamespace(name="unstack"), params={"axis": 1}, inputs=[])
    name, options = in_numpy(operation)
    first, second = OPERATIONS[name](np.array([[1, 2], [3, 4], [5, 6]]), **options)
    assert first.tolist() == [1, 3, 5] and second.tolist() == [2, 4, 6]
    assert OPERATIONS[name](np.array([[1], [3]]), **options).tolist() == [1, 3]  # the only one, as of a split


def test_plain_numpy_remembers_until_reset(tmp_path):
    policy = policy_of("ppo-gru")
    plain = PlainPolicy(policy.export(tmp_path / "policy.npz"))
    first, second = observations(policy, 2)
    for observation in (first, second):
        policy.act(observation), plain.act(observation)
    np.testing.assert_allclose(plain._memory[0][0], policy._hidden.features, atol=1e-5)
    with pytest.raises(ValueError, match="remembers 1 episodes, and got 2; call reset"):
        plain.act(np.stack([first, second]))
    plain.reset()
    assert plain._memory is None


def test_plain_numpy_remembers_each_row_of_a_batch(tmp_path):
    policy = policy_of("ppo-gru")
    plain = PlainPolicy(policy.export(tmp_path / "policy.npz"))
    for seen in np.stack(observations(policy, 6)).reshape(2, 3, -1):
        np.testing.assert_allclose(plain.act(seen), policy.act(seen), atol=1e-5)
    ended = [False, True, False]
    plain.reset(only=ended), policy.reset(only=ended)
    np.testing.assert_allclose(plain._memory[0], policy._hidden.features, atol=1e-5)
    assert not plain._memory[0][1].any() and plain._memory[0][0].any()
    with pytest.raises(ValueError, match=r"`only` has shape \(2,\) where 3 episodes are remembered"):
        plain.reset(only=[True, False])


def test_the_file_needs_neither_jax_nor_forage(tmp_path):
    policy = policy_of("ppo-continuous")
    policy.export(tmp_path / "policy.npz")
    reader = sys.modules["forage.loop.plain"].__file__
    (tmp_path / "plain.py").write_text(Path(reader).read_text())
    code = """
import json, sys
from plain import PlainPolicy
print(json.dumps(PlainPolicy("policy.npz").act([0.1, 0.2, 0.3]).tolist()))
print(json.dumps([name for name in ("jax", "forage", "equinox", "gymnasium") if name in sys.modules]))
"""
    command = [sys.executable, "-c", code]
    found = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True).stdout.splitlines()
    np.testing.assert_allclose(json.loads(found[0]), policy.act([0.1, 0.2, 0.3]), atol=1e-5)
    assert json.loads(found[1]) == []


def test_what_a_file_cannot_do_is_one_sentence(tmp_path):
    policy = policy_of("ppo")
    with pytest.raises(ForageError, match=r"exported as \.npz, \.onnx, \.safetensors, and policy\.pt is none"):
        policy.export(tmp_path / "policy.pt")
    policy.sampled = True
    with pytest.raises(ForageError, match=r'scored with sampled actions, and a file acts greedily.*actions="greedy"'):
        policy.export(tmp_path / "policy.npz")
    with pytest.raises(ForageError, match="looks ahead in the environment itself"):
        policy_of("gumbel-search").export(tmp_path / "policy.npz")
    assert list(tmp_path.iterdir()) == []


def test_what_draws_at_random_is_refused(tmp_path):
    policy = policy_of("ppo")
    decide = policy._decide
    policy._decide = lambda state, hidden, seen, key, explore: decide(state, hidden, seen, key, True)
    assert policy._numpy is None
    with pytest.raises(ForageError, match="draws at random even when it acts greedily"):
        policy.export(tmp_path / "policy.npz")


def test_a_file_that_is_no_policy_is_one_sentence(tmp_path):
    path = policy_of("ppo").export(tmp_path / "policy.npz")
    with pytest.raises(ValueError, match=r"shape \(4,\), not \(3,\)"):
        PlainPolicy(path).act(np.zeros(3))
    for wrong, said in ((["left"] * 4, "are numbers of type float32"), ([[1.0], [1.0, 2.0]], "different lengths")):
        with pytest.raises(ValueError, match=said):
            PlainPolicy(path).act(wrong)
    path.write_bytes(path.read_bytes()[:300])
    with pytest.raises(ValueError, match="no whole exported policy"):
        PlainPolicy(path)
    with pytest.raises(ValueError, match="There is no policy"):
        PlainPolicy(tmp_path / "other.npz")


def test_a_program_keeps_what_its_result_needs():
    table = np.arange(3.0, dtype=np.float32)

    def function(x, unused):
        _ = jax.nn.softmax(unused)
        return jax.jit(jax.nn.relu)(x @ (table[:, None] + table)), table.sum()

    x, unused = np.float32([1, -2, 3]), np.ones(2, np.float32)
    program = trace_function(function, x, unused)
    for found, expected in zip(program(x, unused), function(x, unused), strict=True):
        np.testing.assert_allclose(found, expected)
    assert [o.primitive.name for o in program.operations] == ["dot_general", "max"]


def test_safetensors_hold_the_weights_that_act(tmp_path):
    numpy = pytest.importorskip("safetensors.numpy", reason="safetensors is not installed")
    from safetensors import safe_open

    policy = policy_of("sac")
    path = policy.export(tmp_path / "policy.safetensors")
    weights = numpy.load_file(path)
    np.testing.assert_array_equal(weights["head.weight"], policy.state.actor.head.weight)
    assert len(weights) == len(jax.tree.leaves(policy.state.actor))
    with safe_open(path, "numpy") as file:
        about = json.loads(file.metadata()["forage"])
    assert (about["agent"], about["environment"]) == ("SAC", "Pendulum-v1")


@pytest.mark.parametrize("kind", ["ppo", "sac", "ppo-gru"])
def test_onnx_acts_alike(kind, tmp_path):
    pytest.importorskip("jax2onnx", reason="jax2onnx is not installed")
    runtime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
    policy = policy_of(kind)
    session = runtime.InferenceSession(policy.export(tmp_path / "policy.onnx"))
    names = [one.name for one in session.get_inputs()]
    manifest = json.loads((tmp_path / "policy.onnx.json").read_text())
    assert names == [one["name"] for one in [*manifest["memory"], *manifest["inputs"]]]
    assert [one.name for one in session.get_outputs()][-1] == "action"
    seen = np.stack(observations(policy, 5))
    memory = [np.zeros((5, *x.shape), np.float32) for x in jax.tree.leaves(policy._start)]
    for _ in range(2):
        *memory, action = session.run(None, dict(zip(names, [*memory, seen], strict=True)))
        np.testing.assert_allclose(action, policy.act(seen), atol=1e-5)


@pytest.mark.parametrize(("suffix", "package"), [("onnx", "jax2onnx"), ("safetensors", "safetensors.numpy")])
def test_a_missing_extra_is_named(suffix, package, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(ForageError, match=rf"need(s)? an extra: pip install 'forage-rl\[{suffix}\]'"):
        policy_of("ppo").export(tmp_path / f"policy.{suffix}")
