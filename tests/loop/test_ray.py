"""Workers as actors of a Ray cluster: the same numbers, on as many machines as there are, while one of them dies."""

from __future__ import annotations

import importlib.metadata
import os
import signal
import time
from typing import Any

import jax
import numpy as np
import pytest

from forage.core.errors import ForageError
from forage.environments import HostFactory
from forage.loop.cluster.actors import check_ray
from forage.loop.cluster.pool import Pool
from forage.loop.cluster.slots import Slots

CARTPOLE = HostFactory("gymnasium:CartPole-v1")


@pytest.fixture(scope="module")
def cluster() -> Any:
    """Start a cluster of two nodes on this machine; the last test with it loses one of them."""
    pytest.importorskip("ray")
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    import ray
    from ray.cluster_utils import Cluster

    made = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    made.add_node(num_cpus=1)
    os.environ["RAY_ADDRESS"] = made.address
    yield made
    ray.shutdown()
    made.shutdown()
    del os.environ["RAY_ADDRESS"]


def play(pool: Pool, steps: int, seed: int = 0) -> list[Any]:
    """Return a batch's observations in `steps` steps of actions that depend on the step alone."""
    shown = [pool.reset(seed)]
    for number in range(steps):
        shown.append(pool.step(np.array([number % 2, 1, 0, (number + 1) % 2], np.int32)))
    return shown


@pytest.mark.thorough
@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("kind", [Pool, Slots])
def test_an_actor_that_is_killed_is_replaced_and_what_fails_in_one_is_said(cluster: Any, kind: type[Pool]) -> None:
    import ray

    pool = kind(CARTPOLE.build, 4, 2, 1, True)
    try:
        pool.reset(0)
        process = ray.get(pool.workers[0].actor.__ray_call__.remote(lambda _: os.getpid()))  # type: ignore[attr-defined]
        os.kill(process, signal.SIGKILL)
        pool.step(np.zeros(4, np.int32))
        assert pool.lost is not None and pool.lost.tolist() == [True, True, False, False]
        with pytest.raises(ForageError, match="step 2 in environment 3 with"):
            pool.step(np.array([0, 0, 0, 9], np.int32))
    finally:
        pool.close()


@pytest.mark.thorough
@pytest.mark.filterwarnings("default")
def test_actors_step_as_processes_do_and_outlive_a_machine(cluster: Any) -> None:
    import ray

    found = []
    for kind, ray_too in ((Pool, False), (Pool, True), (Slots, True)):
        pool = kind(CARTPOLE.build, 4, 2, 2, ray_too)
        try:
            found.append((play(pool, 30), pool.snapshot()))
        finally:
            pool.close()
    for other in found[1:]:
        jax.tree.map(np.testing.assert_array_equal, found[0][0], other[0])
        assert found[0][1] == other[1]

    pool = Pool(CARTPOLE.build, 4, 2, 1, True)
    try:
        play(pool, 3)
        on = [ray.get(worker.actor.__ray_call__.remote(lambda _: ray.get_runtime_context().get_node_id()))
              for worker in pool.workers]  # type: ignore[attr-defined]  # fmt: skip
        assert len(set(on)) == 2  # a machine each
        other = cluster.worker_nodes.copy().pop()
        cluster.remove_node(other, allow_graceful=False)
        action, lost, until = np.ones(4, np.int32), np.zeros(4), time.monotonic() + 60
        while not lost.any() and time.monotonic() < until:  # its processes notice within seconds
            pool.step(action)
            lost += pool.lost if pool.lost is not None else 0
            time.sleep(0.1)
        pool.step(action)
        assert pool.metrics()["workers_replaced"] >= 1
        assert lost.tolist() in ([1, 1, 0, 0], [0, 0, 1, 1])  # of the machine that died, once
    finally:
        pool.close()
    assert all(worker.actor is None for worker in pool.workers)  # type: ignore[attr-defined]


def test_a_missing_or_old_ray_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> str:
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "version", missing)
    with pytest.raises(ForageError, match=r"need Ray; install it with: pip install 'forage-rl\[ray\]'"):
        Pool(CARTPOLE.build, 2, 2, 1, True)
    monkeypatch.setattr(importlib.metadata, "version", lambda name: "2.9.3")
    with pytest.raises(ForageError, match=r"need Ray 2.50 or newer, and 2.9.3 is installed"):
        check_ray()


@pytest.mark.thorough
@pytest.mark.filterwarnings("default")
def test_a_cluster_that_is_not_there_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    ray = pytest.importorskip("ray")
    if ray.is_initialized():
        ray.shutdown()
    monkeypatch.setenv("RAY_ADDRESS", "127.0.0.1:1")
    with pytest.raises(ForageError, match=r"no Ray cluster at 127.0.0.1:1 .*ray start --head"):
        check_ray()
