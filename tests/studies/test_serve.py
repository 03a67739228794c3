"""A served policy: requests and refusals in sentences, sessions, bounds, and a graceful stop."""

import http.client
import json
import signal
import socket
import sys
import threading
from contextlib import contextmanager

import numpy as np
import pytest
import small

from forage.cli.sharing import serve as command
from forage.core.columns import MISSING, NO, YES, Column, Columns
from forage.core.errors import ForageError
from forage.core.plain import dumps
from forage.loop.plain import FORMAT, PlainPolicy
from forage.studies.serve import exported_file, make_server, open_policy
from forage.studies.serving.onnx_policy import column_codes, join_columns, number_paths
from forage.studies.serving.requests import Refusal, leaves_of, read_rows
from forage.studies.serving.service import Limits, PolicyService

BOX = {"kind": "box", "low": "-Infinity", "high": "Infinity", "shape": [3], "dtype": "float32"}
PRODUCT = {"axes": [[[1], [0]], [[], []]]}
LIMITS = Limits(body=2000, batch=4, connections=2, seconds=2.0, sessions=2)


def manifest_of(space, inputs, memory=()):
    """Return as much of a manifest as a server reads."""
    about = {
        "agent": "PPO",
        "environment": "shop",
        "member": {"seed": 1},
        "actions": "greedy",
        "versions": {"jax": "1"},
    }
    return about | {"observation_space": space, "inputs": inputs, "memory": list(memory)}


def policy_content(remembers=False, table=None):
    """Return a policy of three numbers: the place of the largest; with memory, of the sums in the episode so far."""
    space, entry = BOX, {"name": "observation", "dtype": "float32", "shape": [3]}
    about = {
        "format": FORMAT,
        "agent": "PPO",
        "environment": "shop",
        "manifest": manifest_of(space, [entry]),
        "observation": 0,
        "action": 0,
        "inputs": [["float32", [3]]],
    }
    if table is not None:
        words = {"missing": MISSING, "yes": YES, "no": NO}
        about["manifest"] |= {"columns": table.to_json() | {"words": words}}
    if remembers:
        operations = [["add", [0, 1], [2], {}], ["argmax", [2], [3], {"axis": 1, "dtype": "int32"}]]
        about |= {"memories": 1, "operations": operations, "results": [2, 3]}
        return about, {"memory0": np.zeros(3, np.float32)}
    operations = [["dot_general", [0, "w"], [1], PRODUCT], ["argmax", [1], [2], {"axis": 1, "dtype": "int32"}]]
    return about | {"memories": 0, "operations": operations, "results": [2]}, {"w": np.eye(3, dtype=np.float32)}


def service(remembers=False, limits=LIMITS, table=None):
    return PolicyService(PlainPolicy.from_content(*policy_content(remembers, table)), limits)


def ask(answering, **request):
    return answering.act(json.dumps(request).encode())


def test_one_observation_and_a_batch():
    answering = service()
    assert ask(answering, observation=[0, 2, 1]) == {"action": 1}
    assert ask(answering, observations=[[0, 2, 1], [0, 1, 5]]) == {"actions": [1, 2]}
    assert answering.index()["example"] == {"observation": [0.0, 0.0, 0.0]}
    assert answering.about()["exported_by"] == {"jax": "1"}


TABLE = Columns(
    (Column("stock", mean=4.0, deviation=2.0, typical=5.0), Column("day", "category", ("Mon", "Tue"))),
    (Column("order", "category", ("none", "small", "large")),),
)
LOW, HIGH = {"stock": 0, "day": "Tue"}, {"stock": 9, "day": "Mon"}  # [-2, 0, 1] and [2.5, 1, 0]
BAD_CELLS = [
    (LOW | {"stok": 1}, "Row 1: there is no column 'stok'. Did you mean 'stock'?"),
    ({"stock": 1}, "Row 1: column day is missing; give stock, day."),
    (LOW | {"day": "Wed"}, "Row 1: column day takes Mon, Tue, not 'Wed'."),
    (LOW | {"day": None}, "Row 1: column day has no value; it takes Mon, Tue."),
    (LOW | {"stock": "many"}, "Row 1: column stock takes a number, not 'many'."),
    (LOW | {"stock": True}, "Row 1: column stock is made of numbers, not of true and false."),
    (LOW | {"stock": [1]}, "Row 1: column stock has one value in each row, not a list."),
    (LOW | {"stock": 1e40}, "Row 1: column stock takes a finite number, not 1e+40."),
    ([1, 2], "Row 1: observation has shape [2]"),
]


def test_columns_of_a_table_go_in_and_come_out_by_name():
    answering = service(table=TABLE)
    large, none = {"order": "large"}, {"order": "none"}
    assert ask(answering, observation=LOW) == {"action": large} and ask(answering, **HIGH) == none
    assert ask(answering, **HIGH | {"stock": None}) == {"order": "small"}  # the typical 5 is 0.5, below Mon's 1
    assert ask(answering, observations=[LOW, HIGH, [0, 0, 1]]) == {"actions": [large, none, large]}
    assert answering.index()["example"] == {"observation": {"stock": 5.0, "day": "Mon"}}
    for row, said in BAD_CELLS:
        with pytest.raises(Refusal) as caught:
            ask(answering, observations=[LOW, row])
        assert caught.value.status == 400 and caught.value.sentence.startswith(said)
    with pytest.raises(Refusal, match="column day is missing"):
        ask(answering, stock=3)
    with pytest.raises(Refusal, match="has no key 'stok'"):
        ask(answering, stok=3)
    remembering = service(True, table=TABLE)
    assert ask(remembering, observation=LOW, session="a", start=True) == {"action": large}
    with pytest.raises(Refusal, match="has no key 'stock'"):
        ask(remembering, **LOW)


REFUSED = [
    ("", 400, "The body is no JSON in UTF-8"),
    ("[1]", 400, 'A request is an object, such as {"observation": ...}, not a list.'),
    ("{}", 400, "this one has neither"),
    ('{"obs": [0, 0, 0]}', 400, "no key 'obs'. Did you mean 'observation'?"),
    ('{"observation": [0, 0, 0], "observations": []}', 400, "no key 'observation'"),
    ('{"observation": [0, 0, 0], "session": "a"}', 400, "remembers nothing from step to step, so leave session out"),
    ('{"observation": [0, 0, 0], "observation": [0, 0, 1]}', 400, "a key stands twice"),
    (
        '{"observation": [0, 0]}',
        400,
        "Row 0: observation has shape [2]; it takes finite numbers in the shape [3].",
    ),
    ('{"observation": ["1", 0, 0]}', 400, "other things than numbers"),
    ('{"observation": [null, 0, 0]}', 400, "other things than numbers"),
    ('{"observation": [NaN, 0, 0]}', 400, "NaN is no number of JSON"),
    ('{"observation": [1e400, 0, 0]}', 400, "Row 0: observation has inf at [0]"),
    ('{"observation": [0, 1e39, 0]}', 400, "Row 0: observation has 1e+39 at [1]"),
    ('{"observation": [true, true, false]}', 400, "not of true and false"),
    ('{"observations": [[0, 0, 0], [0, [0], 0]]}', 400, "Row 1: the lists in observation have different lengths"),
    ('{"observations": []}', 400, "not an empty list"),
    ('{"observations": {"a": 1}}', 400, "not an object"),
    ('{"observations": [[0,0,0], [0,0,0], [0,0,0], [0,0,0], [0,0,0]]}', 413, "at most 4 observations, not 5; split"),
    ('{"observation": {"a": 1, "b": 2}}', 400, "other things than numbers"),
    ("[" * 5000, 400, "The body is no JSON"),
    ('{"observation": "\xff"}', 400, "codec can't decode"),
]


@pytest.mark.parametrize(("body", "status", "said"), REFUSED, ids=[said for *_, said in REFUSED])
def test_a_refusal_is_a_sentence(body, status, said):
    with pytest.raises(Refusal) as caught:
        service().act(body.encode("latin-1"))  # the last row is no UTF-8
    assert caught.value.status == status and said in caught.value.sentence
    assert caught.value.sentence.endswith((".", "?")) and "\n" not in caught.value.sentence


SEEN = {
    "kind": "dict",
    "spaces": {
        "shelf": {"kind": "dict", "spaces": {"count": {"kind": "discrete", "n": 3, "start": 2}}},
        "bits": {"kind": "multi-binary", "shape": [2]},
        "pair": {"kind": "multi-discrete", "nvec": [2, 5]},
        "words": {"kind": "tokens", "length": 2, "vocabulary": 9},
        "image": {"kind": "box", "low": 0, "high": 255, "shape": [1, 2], "dtype": "uint8"},
    },
}
ENTRIES = [("int8", [2]), ("uint8", [1, 2]), ("int32", [2]), ("int32", []), ("int32", [2])]  # bits, image, pair, ...
GOOD = {"shelf": {"count": 4}, "bits": [True, False], "pair": [1, 4], "words": [8, 0], "image": [[0, 255]]}
WRONG = [
    ({"shelf": {"count": 5}}, "observation.shelf.count has 5; it takes one of whole numbers from 2 to 4"),
    ({"shelf": {"count": 2.5}}, "observation.shelf.count has 2.5"),
    ({"shelf": {}}, "observation.shelf lacks count"),
    ({"shelf": 3}, "observation.shelf is an object with the keys count, not a number"),
    ({"bits": [2, 0]}, "observation.bits has 2 at [0]; it takes zeros and ones in the shape [2]"),
    ({"pair": [1, 5]}, "observation.pair has 5 at [1]; it takes choices below [2, 5]"),
    ({"words": [-1, 0]}, "observation.words has -1 at [0]; it takes token numbers below 9"),
    ({"image": [[0, 256]]}, "observation.image has 256 at [0, 1]; it takes whole numbers that fit into uint8"),
    ({"shlef": 3}, "observation has the unknown key 'shlef'. Did you mean 'shelf'?"),
]


def test_rows_of_nested_dictionaries_are_checked_by_their_spaces():
    inputs = [{"name": "", "dtype": dtype, "shape": shape} for dtype, shape in ENTRIES]
    leaves = leaves_of(manifest_of(SEEN, inputs))
    assert [leaf.name for leaf in leaves][:2] == ["observation.bits", "observation.image"]
    bits, image, pair, count, words = read_rows(leaves, [GOOD, GOOD])
    assert bits.tolist() == [[1, 0]] * 2 and bits.dtype == np.int8 and count.tolist() == [4, 4]
    assert image.shape == (2, 1, 2) and pair.tolist() == [[1, 4]] * 2 and words.tolist() == [[8, 0]] * 2
    for changed, said in WRONG:
        with pytest.raises(Refusal, match="Row 1: ") as caught:
            read_rows(leaves, [GOOD, GOOD | changed])
        assert said in caught.value.sentence


def test_a_session_remembers_its_episode():
    answering, alone = service(True), PlainPolicy.from_content(*policy_content(True))
    steps = [[1, 0, 0], [0, 3, 0], [0, 0, 1]]
    expected = [alone.act(np.float32(step)) for step in steps]
    found = [ask(answering, observation=step, session="a", start=not i)["action"] for i, step in enumerate(steps)]
    assert found == expected == [0, 1, 1]
    both = ask(answering, observations=[[9, 0, 0], [0, 0, 1]], sessions=["a", "b"], start=[False, True])
    assert both == {"actions": [0, 2]}
    ask(answering, observation=[0, 1, 0], session="c", start=True)  # one session too many: "a" is forgotten
    for request, status, said in [
        ({"observation": [0, 0, 0], "session": "a"}, 404, "no session 'a': it never started, or 2 others were used"),
        (
            {"observation": [0, 0, 0]},
            400,
            "name each one, a text of at most 100 characters for every observation",
        ),
        ({"observations": [[0, 0, 0]] * 2, "sessions": ["b", "b"]}, 400, "Each session takes one step in a request"),
        ({"observation": [0, 0, 0], "session": "b", "start": 1}, 400, '"start" is true or false'),
    ]:
        with pytest.raises(Refusal) as caught:
            ask(answering, **request)
        assert caught.value.status == status and said in caught.value.sentence
    assert ask(answering, observation=[0, 0, 5], session="b") == {"action": 2}


@contextmanager
def running(answering):
    server = make_server(answering.policy, "127.0.0.1", 0, answering.limits)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield server
    finally:
        server.stop()
        thread.join()


def request(server, method="GET", path="/health", body=None, **headers):
    connection = http.client.HTTPConnection(*server.server_address[:2], timeout=20)
    try:
        connection.request(method, path, body, headers)
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read())
    finally:
        connection.close()


def test_the_server_answers_within_its_bounds():
    with running(service()) as server:
        assert request(server) == (200, {"status": "ok"})
        assert request(server, path="/manifest")[1]["observation_space"] == BOX
        assert request(server, "POST", "/act", '{"observation": [0, 0, 1]}') == (200, {"action": 2})
        for status, said, *asked in [
            (413, "A body has at most 2,000 bytes, not 9,000", "POST", "/act", b" " * 9000),
            (404, "There is no /acts", "GET", "/acts"),
            (404, "there is no /acts", "POST", "/acts", b"{}"),
            (405, "asked for by POST", "GET", "/act"),
            (501, "Unsupported method", "PUT", "/act", b"{}"),
        ]:
            found, answer = request(server, *asked)
            assert found == status and said in answer["error"], answer
        for asked, said in (
            ("Transfer-Encoding: chunked", b" 411 "),
            ("Content-Length: 5000\r\nExpect: 100-continue", b" 413 "),
        ):
            with socket.create_connection(server.server_address[:2]) as asking:  # the body is never sent
                asking.sendall(f"POST /act HTTP/1.1\r\n{asked}\r\n\r\n".encode())
                assert said in asking.recv(1000)


def test_connections_are_bounded_and_share_the_policy():
    with running(service()) as server:
        host, port = server.server_address[:2]
        first, second = (http.client.HTTPConnection(host, port, timeout=20) for _ in range(2))
        for connection in (first, second):  # both stay open
            connection.request("GET", "/health")
            assert connection.getresponse().read() == b'{"status": "ok"}'
        assert request(server)[0] == 503

        def ask_often(connection, place, found):
            seen = [0.0, 0.0, 0.0]
            seen[place] = 1.0
            for _ in range(20):
                connection.request("POST", "/act", json.dumps({"observation": seen}))
                found.append(json.loads(connection.getresponse().read())["action"])

        found = [], []
        threads = [
            threading.Thread(target=ask_often, args=(connection, place, found[place]))
            for place, connection in enumerate((first, second))
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert found == ([0] * 20, [1] * 20)
    assert first.sock.recv(1) == b"", "an idle connection is closed when the server stops"
    first.close(), second.close()


def test_a_port_in_use_and_an_old_file_are_sentences():
    with running(service()) as server, pytest.raises(ForageError, match="another --port works, or 0"):
        make_server(server.service.policy, "127.0.0.1", server.server_address[1], LIMITS)
    about, arrays = policy_content()
    about.pop("manifest")
    with pytest.raises(ForageError, match="exported without a manifest, by an older Forage; export it again"):
        make_server(PlainPolicy.from_content(about, arrays), "127.0.0.1", 0, LIMITS)


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGTERM to catch")
def test_an_exported_policy_is_served_without_jax_until_a_signal(tmp_path):
    about, arrays = policy_content()
    np.savez(tmp_path / "policy.npz", about=np.frombuffer(dumps(about).encode(), np.uint8), **arrays)
    (tmp_path / "jax.py").write_text("raise ImportError('JAX is not needed')")
    process = small.start("serve", "policy.npz", "--port", 0, "--json", cwd=tmp_path)
    try:
        ready = json.loads(process.stdout.readline())
        connection = http.client.HTTPConnection(ready["url"].removeprefix("http://"), timeout=20)
        connection.request("POST", "/act", '{"observations": [[0, 1, 0], [1, 0, 0]]}')
        assert json.loads(connection.getresponse().read()) == {"actions": [1, 0]}
        connection.close()
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=30)
        assert (process.returncode, out, err) == (0, "", "")
    finally:
        process.kill()


def test_every_option_has_its_line():
    for option in ("port", "host", *command.WHOLE):
        assert f"--{option.replace('_', '-')} " in command.HELP


def test_a_directory_with_one_exported_policy_is_served(tmp_path):
    def put(*names):
        for name in names:
            (tmp_path / name).write_text("{}")

    assert exported_file(tmp_path) == tmp_path
    put("policy.npz", "other.npz", "policy.npz.json")
    assert exported_file(tmp_path) == tmp_path / "policy.npz"
    put("policy.onnx", "policy.onnx.json")
    with pytest.raises(ForageError, match=r"holds policy\.npz, policy\.onnx; name one of these files"):
        open_policy(tmp_path)
    put("agent.npz")
    assert exported_file(tmp_path) == tmp_path  # a run
    model = tmp_path / "model"
    model.mkdir()
    (model / "model.safetensors").touch()
    with pytest.raises(ForageError, match=r"language model in Hugging Face's form; .* vLLM, runs it"):
        open_policy(model)


def test_columns_of_a_model_are_codes():
    rows = np.float32([[-2, 0, 1], [2.5, 1, 0]])
    stock, day = column_codes(TABLE, rows)
    np.testing.assert_allclose(stock, [0, 9])
    assert day.tolist() == [1, 0] and day.dtype == np.int32
    assert join_columns(TABLE, [np.array([2, 0])]).tolist() == [2, 0]
    both = (*TABLE.action, Column("fast", "boolean", ("no", "yes")))
    codes = [np.array([2, 0]), np.array([1, 0])]
    for joint, wanted in ((True, [5, 0]), (False, [[2, 1], [0, 0]])):
        table = Columns(TABLE.observation, both, joint=joint)
        assert join_columns(table, codes).tolist() == wanted
        names = table.decode_action(join_columns(table, codes))
        assert names["order"].tolist() == ["large", "none"] and names["fast"].tolist() == ["yes", "no"]


def test_paths_become_nested_numbers():
    assert number_paths([()]) == 0
    assert number_paths([("in", "x"), ("in", "y"), ("n",)]) == {"in": {"x": 0, "y": 1}, "n": 2}
