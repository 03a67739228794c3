"""Several hosts that share a run: two processes of this machine train as one, stop as one, and report errors."""

import contextlib
import signal
import socket
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import jax
import numpy as np
import pytest
import small

from forage.config.resolve import resolve
from forage.core.types import ForageError
from forage.loop.cluster.hosts import (
    Hosts,
    await_others,
    card,
    connect,
    misfit,
    pack_tree,
    plain_arguments,
    report_to_first,
    unpack_tree,
)
from forage.runs.joining import follow_host, lead

PPO = ["ppo", "CartPole-v1", "--seeds", "1", "--num-envs", "8", "--rollout-length", "16", "--hidden-sizes", "8"]
SAC = ["sac", "Pendulum-v1", "--seeds", "3", "--num-envs", "4", "--learning-starts", "64", "--hidden-sizes", "8"]
PATIENCE = 240  # seconds; hosts that wait for each other would wait for ever
FEW = ["--evaluation-episodes", "2", "--plain"]


def free_port() -> int:
    with socket.socket() as trial:
        trial.bind(("localhost", 0))
        return trial.getsockname()[1]


@contextlib.contextmanager
def run_both(*words: str):
    """Begin a command of two hosts and the other host's; yield both processes, and leave none behind."""
    where = f"localhost:{free_port()}"
    first = small.start(*words, "--hosts", "2", "--coordinator", where)
    begun = [first, small.start("join", where, "--number", "1", "--hosts", "2", "--plain")]
    try:
        yield begun
    finally:
        for process in begun:
            process.kill()
            process.communicate()


def words_by(process: subprocess.Popen[str]) -> str:
    """Return the output of a process until it ends."""
    return "".join(process.communicate(timeout=PATIENCE))


def finish(*words: str) -> list[str]:
    """Run a command on two hosts to its end. Return the output of each."""
    with run_both(*words) as begun:
        said = [words_by(process) for process in begun]
        assert [process.returncode for process in begun] == [0, 0], said
    return said


def run_learn(directory: Path) -> dict[str, np.ndarray]:
    with np.load(directory / "agent.npz") as saved:
        return {name: saved[name] for name in saved.files if name not in ("header", "names")}


def run_apart(one: Path, other: Path) -> float:
    pairs = [(array.astype(float), run_learn(other)[name].astype(float)) for name, array in run_learn(one).items()]
    return max(float(np.abs(a - b).max(initial=0.0)) for a, b in pairs)


@pytest.mark.thorough
@pytest.mark.parametrize(("words", "steps"), [(PPO, 1024), (SAC, 320)], ids=["ppo", "sac"])
def test_two_hosts_train_as_one(words, steps, tmp_path):
    words = [*words, *FEW, "--steps", str(steps)]
    said = finish("train", *words, "--directory", str(tmp_path / "two"), "--evaluation-every", str(steps))
    assert "on 2 devices" in said[0] and "Host 1 of 2 trains" in said[1] and "run is over" in said[1]
    small.forage("train", *words, "--directory", str(tmp_path / "one"), "--devices", "1")
    assert run_apart(tmp_path / "two", tmp_path / "one") < 1e-5
    # What one of them learned is handed on, and both go on from it alike.
    more = ["train", "--from", str(tmp_path / "two"), "--steps", "128", *FEW]
    finish(*more, "--directory", str(tmp_path / "more-two"))
    small.forage(*more, "--directory", str(tmp_path / "more-one"), "--devices", "1")
    assert run_apart(tmp_path / "more-two", tmp_path / "more-one") < 1e-5


LONG = ["train", *PPO, *FEW, "--steps", "4096", "--checkpoint-seconds", "0"]


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """Train on two hosts from the beginning to the end."""
    directory = tmp_path_factory.mktemp("hosts") / "whole"
    finish(*LONG, "--directory", str(directory))
    return directory


@pytest.mark.thorough
@pytest.mark.parametrize("killed", [0, 1, None])
def test_a_run_that_lost_a_host_or_was_stopped_goes_on_bit_for_bit(whole, killed, tmp_path):
    with run_both(*LONG, "--directory", str(tmp_path / "run")) as begun:
        until = time.monotonic() + PATIENCE
        while len(list((tmp_path / "run" / "checkpoints").glob("*.npz"))) < 2 and time.monotonic() < until:
            time.sleep(0.05)
        begun[killed or 0].send_signal(signal.SIGINT if killed is None else signal.SIGKILL)
        said = [words_by(process) for process in begun]
        codes = [process.returncode for process in begun]
    if killed is None:
        assert codes == [130, 0] and "Continue with: forage resume" in said[0]
    if killed == 1:
        assert codes[0] == 2 and "Another host is gone" in said[0] and "is kept as of step" in said[0]
    assert all(codes[i] != 0 for i in range(2) if i == killed or killed == 0)
    assert len(list((tmp_path / "run" / "checkpoints").glob("00000000[0-3]*.npz"))) == 2  # it was not over
    finish("resume", str(tmp_path / "run"), "--plain")
    assert run_apart(tmp_path / "run", whole) == 0


def test_what_hosts_cannot_do_is_said_in_a_sentence():
    def check_refused(words: str, call, *arguments) -> None:
        with pytest.raises(ForageError, match=words):
            call(*arguments)

    check_refused("on 1 host or more, not 0", lead, 0, "")
    check_refused("say how many with --hosts", lead, 1, "localhost:4711")
    check_refused("name this one's with --coordinator", lead, 2, "")
    check_refused("listens at NAME:PORT, such as localhost:4711, not at 'localhost'", lead, 2, "localhost")
    check_refused("not at 'localhost:99999'", lead, 2, "localhost:99999")
    check_refused("Several hosts are 2 or more, not 1", follow_host, "localhost:4711", 1, 1, None)
    check_refused("Host 0 leads", follow_host, "localhost:4711", 0, 2, None)
    jax.devices()  # nobody waits for anybody any more
    check_refused(
        "before JAX is used; begin such a run in a new process", connect, Hosts(2, f"localhost:{free_port()}")
    )
    check_refused("the others are number 1 to 1, not 2", connect, Hosts(2, "localhost:4711", 2))


def nothing(text: str) -> None:
    pass


def test_who_does_not_come_or_does_not_fit_is_named():
    port = free_port()
    two, three = Hosts(2, f"localhost:{port}"), Hosts(3, f"localhost:{port}")

    def check_refused(words: str, call, *arguments) -> None:
        with pytest.raises(ForageError, match=words):
            call(*arguments)

    check_refused("Host 1, 2 did not come within 0 seconds", await_others, three, "localhost", port, nothing, 0.2)
    check_refused(
        "Nobody leads a run at localhost:", report_to_first, two._replace(number=1), "localhost", port, nothing, 0.2
    )
    with socket.socket() as taken:
        taken.bind(("", 0))
        taken.listen()
        check_refused("Port .* cannot be listened at .*name another one", await_others, two, "localhost",
                taken.getsockname()[1], nothing, 0.2)  # fmt: skip
    assert "give both the same --hosts" in misfit(three, card(two._replace(number=1)), ())
    assert misfit(three, card(three._replace(number=1)), ()) == ""
    assert "Host 1 has come already" in misfit(three, card(three._replace(number=1)), {1})
    assert "and this one 0.1; install the same" in misfit(two, card(two._replace(number=1)) | {"jax": "0.1"}, ())

    with ThreadPoolExecutor(3) as threads:  # the second 1 is told why, and the others find each other
        leading = threads.submit(await_others, three, "localhost", port, nothing, 30.0)
        first = threads.submit(report_to_first, three._replace(number=1), "localhost", port, nothing, 30.0)
        time.sleep(0.5)
        check_refused("has come already", report_to_first, three._replace(number=1), "localhost", port, nothing, 30.0)
        report_to_first(three._replace(number=2), "localhost", port, nothing, 30.0)
        assert leading.result() is None and first.result() is None


STRANGERS = {
    "deep": b"[" * 200_000 + b"\n",
    "no number": b'{"number": true, "hosts": 2, "jax": "' + jax.__version__.encode() + b'"}\n',
    "another protocol": b"GET / HTTP/1.1\r\n\r\n",
    "nothing": b"null\n",
    "no end": b"x" * 100_000,
    "slow": b"x",
    "gone": b"",
}


def test_strangers_neither_delay_nor_stop_the_first_host():
    port = free_port()
    two = Hosts(2, f"localhost:{port}")
    with ThreadPoolExecutor(1) as threads, contextlib.ExitStack() as connections:
        leading = threads.submit(await_others, two, "localhost", port, nothing, 30.0)
        time.sleep(0.1)
        listening = Path("/proc/net/tcp")
        assert not listening.exists() or f"00000000:{port:04X}" not in listening.read_text()  # at this machine alone
        for said in [*STRANGERS.values()] * 20:  # and more than it bears
            stranger = connections.enter_context(socket.create_connection(("localhost", port), 5.0))
            with contextlib.suppress(OSError):  # it hangs up in the middle
                stranger.sendall(said)
        early = connections.enter_context(socket.create_connection(("localhost", port), 5.0))
        early.sendall(b'{"number": 1, "hosts": 2, "jax": "0"}\n')
        assert b"install the same" in early.recv(1000)
        began = time.monotonic()
        report_to_first(two._replace(number=1), "localhost", port, nothing, 30.0)
        assert leading.result(5.0) is None and time.monotonic() - began < 5

    with pytest.raises(ForageError, match="Host 1 did not come within 0 seconds"), ThreadPoolExecutor(1) as threads:
        leading = threads.submit(await_others, two, "localhost", port, nothing, 0.5)
        time.sleep(0.1)
        with socket.create_connection(("localhost", port), 5.0) as slow:
            slow.sendall(b"x")  # and no more, for longer than there is time
            leading.result(5.0)


def test_numbers_and_trees_travel_as_they_are():
    _, environment, options = small.AGENTS["dqn"]
    runner = resolve("dqn", environment, seeds=1, steps=100, agent_options=options).runner()
    with small.no_training():
        runner.begin()
    state = runner.state.learner
    again = unpack_tree(pack_tree(state), state)
    assert small.differing(state, again) == []
    given = {"path": Path("a"), "rows": (np.int64(1), 2.5), "none": None}
    assert plain_arguments(given) == {"path": "a", "rows": [1, 2.5], "none": None}
