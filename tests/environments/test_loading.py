"""Environments by users: modules, classes, functions and options, and the errors of their processes."""

import functools
import importlib.util
import json
import multiprocessing
import os
import sys
import threading
import time
import warnings
from pathlib import Path
from types import SimpleNamespace

import gymnasium
import numpy as np
import pytest
import small

import forage
from forage.config.environment import environment_spec, resolve_environment
from forage.core.loading import load_class
from forage.core.types import ForageError
from forage.environments import canonical_id, make
from forage.environments.adapters.gymnasium.calls import sendable
from forage.environments.plain import from_plain, to_plain
from forage.loop.host.runner import HostRunner

HELPER = "SPEED = 3.0\n"
MINE = '''
import os
import gymnasium
import numpy as np
from gymnasium import spaces
import {helper}

class Base(gymnasium.Env):
    observation_space = spaces.Box(-9, 9, (3,), np.float32)
    action_space = spaces.Discrete(2)
    metadata = {{"render_modes": ["rgb_array"], "render_fps": 10}}
    length = 4
    def reset(self, seed=None, options=None):
        super().reset(seed=seed)
        import late_{helper}  # found later than the file itself, too
        self.time = 0
        return self.look(), {{}}
    def look(self):
        return np.zeros(3, np.float32)
    def pay(self):
        return {helper}.SPEED
    def step(self, action):
        self.time += 1
        return self.look(), self.pay(), self.time >= self.length, False, self.tell()
    def tell(self):
        return {{"is_success": self.time >= 4, "return": 5.0, "one": np.array([2.0]), "words": "go"}}

class Named(Base):
    """Its options are called as some of ours are."""
    def __init__(self, info=None, parallel=None, name=None, target=None, num_envs=None, max_episode_steps=9, render=0):
        self.given = (info, parallel, name, target, num_envs, max_episode_steps, render)
    def pay(self):
        return float(sum(self.given))

class Words(spaces.Space):
    def __init__(self):
        super().__init__()
    def sample(self, mask=None, probability=None):
        return "go"
    def contains(self, x):
        return isinstance(x, str)

class Told(Base):
    observation_space = spaces.Dict(a=Base.observation_space, deep=spaces.Dict(mission=Words(), b=spaces.Discrete(2)))
    def look(self):
        return {{"a": np.zeros(3, np.float32), "deep": {{"mission": "go", "b": 1}}}}

class Film(Base):
    def __init__(self, render_mode=None):
        self.render_mode = render_mode
    def render(self):
        return np.full((21 + self.time, 33, 3), 0.8, np.float32) if self.render_mode else None

class Undrawn(Base):
    pass

class Seedless(Base):
    def reset(self):
        return super().reset()

class Inner(Base):
    def __init__(self):
        np.zeros(3, colour="red")

class Old(Base):
    def reset(self, seed=None, options=None):
        return super().reset(seed=seed)[0]

class OldStep(Base):
    def step(self, action):
        return super().step(action)[:4]

class Column(Base):
    def pay(self):
        return np.array([1.0])

class Text(Base):
    def pay(self):
        return "1.5"

class Dies(Base):
    def pay(self):
        os._exit(11) if self.time == 3 else None
        return 1.0

class Port(Base):
    def __init__(self):
        import multiprocessing
        if multiprocessing.parent_process() is not None:
            raise RuntimeError("port 5555 is in use")

class Licence(Base):
    open = 0
    def __init__(self):
        if Licence.open:
            raise RuntimeError("one licence")
        Licence.open += 1
    def close(self):
        Licence.open -= 1

gymnasium.register("Mine-v0", entry_point=Base, max_episode_steps=3)
gymnasium.register("Loose", entry_point=Named)
gymnasium.register("own/Toy-v1", entry_point=Named)
'''


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with a user's module, and another module that it imports."""
    path = tmp_path_factory.mktemp("own")
    (path / "my_helper.py").write_text(HELPER)
    (path / "late_my_helper.py").write_text("")
    (path / "my_package.py").write_text(MINE.format(helper="my_helper"))
    (path / "my_broken.py").write_text("import gymnasium\n\nraise KeyError('no such scene')\n")
    (path / "my_script.py").write_text(
        MINE.format(helper="my_helper") + "import forage\nforage.train('ppo', Base, steps=8)\n"
    )
    (path / "my_tag.py").write_text("")
    return path


@pytest.fixture(autouse=True)
def own_folder(folder, monkeypatch):
    """In that folder, with the paths that Python knows put back afterwards."""
    monkeypatch.chdir(folder)
    monkeypatch.setattr(sys, "path", [*sys.path])
    for name in [name for name in sys.modules if name.startswith(("my_", "late_my_", "forage_file_my_"))]:
        monkeypatch.delitem(sys.modules, name)
    for id in ("Mine-v0", "Loose", "own/Toy-v1"):
        gymnasium.registry.pop(id, None)


def rewards(factory, num_envs=1):
    host = factory.build(num_envs)
    try:
        host.reset(0)
        return host.step(np.zeros(num_envs, int)).step.reward.tolist()
    finally:
        host.close()


def say(call, *arguments, **options):
    with pytest.raises(ForageError) as caught:
        call(*arguments, **options)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_a_file_that_changes_within_a_second_of_its_import_is_read_again(folder, monkeypatch):
    """Python compares a file's size and the second of its last change alone."""
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    file, then = folder / "my_number.py", time.time() - 10
    for number in (1, 2):
        file.write_text(f"class Number:\n    value = {number}\n")
        os.utime(file, (then, then))
        for name in [name for name in sys.modules if name.startswith("forage_file_my_number")]:
            monkeypatch.delitem(sys.modules, name)
        assert load_class(f"{file}:Number").value == number


def test_ids_of_ones_own_module_are_imported_and_kept_whole():
    for id, horizon in (("Mine-v0", 3), ("Loose", None), ("own/Toy-v1", None), ("mine-V0", 3)):
        options = {} if horizon else {"info": 1, "parallel": 2, "name": 3, "target": 4, "num_envs": 5, "render": 6}
        factory = make(f"gymnasium:my_package:{id}", **options)
        assert factory.spec().horizon == horizon
        assert rewards(factory) == [3.0 if horizon else 30.0]
    assert canonical_id("gymnasium:my_package:mine-V0") == "gymnasium:my_package:Mine-v0"
    assert "my_package registers no Mine-v7" in say(make, "gymnasium:my_package:Mine-v7")
    assert "There is no module my_packge" in say(make, "gymnasium:my_packge:Mine-v0")
    broken = say(make, "gymnasium:my_broken:Mine-v0")
    assert "KeyError: 'no such scene'" in broken and "my_broken.py, line 3" in broken


@pytest.mark.filterwarnings("ignore:.*Overriding environment")  # of a module that is loaded once more
def test_files_beside_ones_own_are_found_whenever_they_are_imported(folder, monkeypatch, tmp_path):
    assert rewards(make("my_package:Base")) == [3.0]
    monkeypatch.chdir(tmp_path)
    for name in ("my_helper", "late_my_helper"):
        sys.modules.pop(name)
    sys.path[:] = [path for path in sys.path if path != str(folder)]
    assert rewards(make(f"{folder}/my_package.py:Base")) == [3.0]
    assert "my_broken.py, line 3" in say(make, f"{folder}/my_broken.py:Base")
    assert "__main__" in say(make, f"{folder}/my_script.py:Base")  # it would train before its class is there


@pytest.mark.skipif(importlib.util.find_spec("pettingzoo") is None, reason="pettingzoo is not installed")
def test_modules_of_many_agents_are_found_here_too():
    assert canonical_id("pettingzoo:my_tag") == "pettingzoo:my_tag"
    assert "neither parallel_env nor env" in say(make("pettingzoo:my_tag").build, 1)


def test_options_reach_the_environment_whatever_they_are_called():
    options = {"info": 1, "parallel": 2, "name": 3, "target": 4, "num_envs": 5, "max_episode_steps": 6, "render": 7}
    factory = make("my_package.py:Named", **options)
    assert rewards(factory, 2) == [28.0, 28.0]
    assert factory.spec().horizon == 6  # a limit of ours as well
    ours = make("my_package.py:Named", **options, **{"forage.info": "one,is_success", "own.render": 8})
    host = ours.build(1)
    host.reset(0)
    step = host.step(np.zeros(1, int)).step
    assert step.reward == [29.0] and {name: values[0] for name, values in step.info.items()} == {
        "one": 2.0,
        "is_success": 0.0,
    }
    assert "has no option 'weigth'" in say(make("my_package.py:Named", weigth=1).build, 1)
    assert "could not be made: zeros()" in say(make("my_package.py:Inner").build, 1)


def test_options_are_kept_as_what_they_are():
    given = {"a": np.arange(3, dtype=np.float32), "b": (1, None), "c": {"tuple": [True, "x"]}, "d": np.float64(0.5)}
    found = from_plain(json.loads(json.dumps(to_plain("mine", given))))
    assert found["a"].dtype == np.float32 and found["a"].tolist() == [0, 1, 2]
    assert found["b"] == (1, None) and found["c"] == given["c"] and found["d"] == 0.5
    assert "option f of mine is a function" in say(to_plain, "mine", {"f": say})


def test_what_an_environment_must_return_is_said():
    for name, words in (
        ("Seedless", "has a reset that takes no seed"),
        ("Old", "returned float32[3] from reset"),
        ("OldStep", "returned 4 values from step at step 1 in environment 0"),
        ("Column", "returned as reward float64[1] at step 1 in environment 0; it should be one number"),
        ("Text", "returned as reward '1.5'"),
    ):
        assert words in say(rewards, make(f"my_package.py:{name}"))
    assert "cannot be drawn" in say(draw, make("my_package.py:Undrawn"))
    assert "words 'go' at step 1 in environment 0" in say(rewards, make("my_package.py:Base", info=["words"]))


def draw(factory):
    host = factory.build(1)
    host.reset(0)
    return host.render()


def test_an_environment_of_ones_own_is_drawn():
    frame = draw(make("my_package.py:Film"))
    assert frame.dtype == np.uint8 and frame.shape == (21, 33, 3) and (frame == 204).all()


def test_parts_that_no_network_reads_are_named_and_left_out():
    words = say(make("my_package.py:Told").build, 1)
    assert "Words as its part deep.mission" in words and "--env.without deep.mission" in words
    assert "deep" in say(make("my_package.py:Told", flatten=True).build, 1)
    host = make("my_package.py:Told", without="deep.mission").build(2)
    assert set(host.observation_space["deep"].spaces) == {"b"} and set(host.reset(0)["deep"]) == {"b"}
    flat = make("my_package.py:Told", without=["deep.mission", "a"], flatten=True).build(1)
    assert flat.reset(0).tolist() == [[0, 1]]
    assert "no part missoin" in say(make("my_package.py:Told", without="missoin").build, 1)
    assert "nothing is left" in say(make("my_package.py:Told", without="a,deep").build, 1)


def test_minigrid_is_read_without_its_mission():
    pytest.importorskip("minigrid")
    host = make("gymnasium:minigrid:MiniGrid-Empty-5x5-v0", without="mission").build(1)
    assert set(host.reset(0)) == {"direction", "image"}


def make_by(given, **options):
    name, environment, config = resolve_environment(given, options)
    return environment_spec(name, environment), environment, config


@pytest.mark.filterwarnings("ignore:.*Overriding environment")
def test_what_is_handed_over_works_or_is_answered():
    from forage.core.loading import load_class

    base, named = load_class("my_package:Base"), load_class("my_package.py:Named")
    for given in (lambda: base(), functools.partial(base), base, base()):
        spec, build, _ = make_by(given)
        assert spec.observation_space.shape == (3,)
        assert rewards(HostFactoryLike(build), 2) == [3.0, 3.0]
    assert make_by(base)[2] == {"id": "my_package:Base", "options": {}}
    spec, _, config = make_by(named, info=2)  # found again from anywhere
    assert config == {"id": str(Path("my_package.py:Named").absolute()), "options": {"info": 2}}
    assert spec.name == make_by(config["id"], info=2)[0].name == "my_package.py:Named"
    assert make_by(functools.partial(base), max_episode_steps=2)[0].horizon == 2

    class Local(base):
        def __init__(self, speed=1.0):
            self.speed = speed

        def pay(self):
            return self.speed

    spec, build, config = make_by(Local, speed=np.float64(7.0))
    assert rewards(HostFactoryLike(build)) == [7.0] and "object" in config and spec.name == "Local"
    held, theirs = base(), gymnasium.make("CartPole-v1", max_episode_steps=7)
    spec, build, config = make_by(theirs)
    assert (spec.name, spec.horizon, list(config)) == ("gymnasium:CartPole-v1", 7, ["object"])
    copies = build(2)  # each with a seed and a state of its own, and not the object's
    seen = copies.reset(0)
    assert not np.array_equal(seen[0], seen[1]) and theirs.unwrapped.state is None
    held.lock = theirs.unwrapped.lock = threading.Lock()
    for given, words in (
        (held, "This Base cannot be copied (cannot pickle '_thread.lock' object), and a run makes several"),
        (held, "give lambda: Base(...)"),
        (theirs, "give 'gymnasium:CartPole-v1' or lambda: gymnasium.make('CartPole-v1')"),
        (lambda n: gymnasium.make("CartPole-v1"), "HostEnvironment"),
        (lambda n: gymnasium.make_vec("CartPole-v1", num_envs=n), "begins a new episode in the step after one ended"),
        (lambda: 3, "made a int"),
        (gymnasium.make_vec("CartPole-v1", num_envs=1), "a fixed number of environments"),
    ):
        assert words in say(make_by, given)
    assert "an object already has its own" in say(make_by, lambda n: None, length=3)
    assert "This Base is an object, with its own length; " in say(make_by, base(), length=3)
    assert make_by(base(), max_episode_steps=2)[0].horizon == 2


class HostFactoryLike:
    def __init__(self, build):
        self.build = build


# --- processes ------------------------------------------------------------------------------------------------------


def test_processes_say_what_went_wrong_and_are_ended():
    assert "takes no seed" in say(rewards, make("my_package.py:Seedless", parallel=True))
    port = say(make("my_package.py:Port", parallel=True).build, 1)
    assert port.endswith("could not be made: port 5555 is in use.")
    host = make("my_package.py:Dies", parallel=True).build(1)
    host.reset(0)
    with pytest.raises(ForageError) as caught:
        for _ in range(3):
            host.step(np.zeros(1, int))
    words = "failed at step 3 in environment 0 with ProcessEnded: the environment's process ended with exit code 11"
    assert words in str(caught.value)
    host.close()
    host.close()
    assert not multiprocessing.active_children()

    # A second copy that cannot be made: the one before it is closed again.
    for number in (2, 3):
        one = say(make("my_package.py:Licence").build, number)
        assert "could be made once and not once more: one licence; a run needs num_envs of it" in one
    assert rewards(make("my_package.py:Licence")) == [3.0]

    class Own(Exception):
        """An error that no other process can unpickle."""

    assert repr(sendable(Own("the wheel came off"))) == "RuntimeError('Own: the wheel came off')"
    assert isinstance(sendable(ZeroDivisionError("by zero")), ZeroDivisionError)


def test_options_and_infos_are_the_same_in_processes():
    options = {"info": 1, "parallel": 2, "name": 3, "target": 4, "num_envs": 5, "render": 7, "max_episode_steps": 8}
    options |= {"forage.info": "one,is_success,absent"}
    found = []
    for parallel in (False, True):
        host = make("my_package.py:Named", **options, **{"forage.parallel": parallel}).build(2)
        try:
            host.reset(0)
            steps = [host.step(np.zeros(2, int)).step for _ in range(5)]
        finally:
            host.close()
        assert host.info_seen == ("is_success", "one", "return", "words")
        found.append([(step.reward.tolist(), {k: v.tolist() for k, v in step.info.items()}) for step in steps])
    assert str(found[0]) == str(found[1]) and found[0][3][0] == [30.0, 30.0]
    assert found[0][3][1]["is_success"] == [1.0, 1.0] and found[0][2][1]["is_success"] == [0.0, 0.0]


# --- runs -----------------------------------------------------------------------------------------------------------


def test_what_the_environment_says_of_episodes_is_kept(tmp_path, capsys):
    """There is one licence, and the evaluation needs it as well."""
    run = forage.train(
        "ppo",
        "my_package.py:Licence",
        steps=32,
        seeds=1,
        agent_options=small.PPO | {"num_envs": 1, "minibatches": 1},
        environment_options={"info": "is_success,return,is_sucess"},
        evaluation_episodes=3,
        directory=tmp_path / "run",
        display="notes",
    )
    assert run.rows[-1]["is_success"] == [1.0] and run.rows[-1]["info/return"] == [5.0]
    assert run.rows[-1]["is_sucess"] == [None] and run.rows[-1]["return"] == [12.0]
    evaluation = run.evaluation
    assert evaluation["is_success"] == [1.0] and evaluation["is_sucess"] == [None]
    assert evaluation["episode_lengths"] == [[4, 4, 4]]
    notes = capsys.readouterr().err
    assert notes.count("ended with is_sucess") == 1 and "it has is_success, one, return, words" in notes
    assert forage.evaluate(tmp_path / "run", episodes=2).value == 12.0


class StillHelper:
    """Counts its calls, in place of a batch."""

    def __init__(self, num_envs):
        self.num_envs, self.seeds, self.open = num_envs, [], True
        self.info_names = ()
        self.info_seen = ()

    def reset(self, seed):
        self.seeds.append(seed)
        return np.zeros((self.num_envs, 3), np.float32)

    def examine(self):
        pass

    def conversations(self):
        return []

    def close(self):
        self.open = False


def test_an_evaluation_takes_as_many_environments_as_training_and_shares_no_episode(monkeypatch):
    built = []

    def build(num_envs):
        built.append(StillHelper(num_envs))
        return built[-1]

    from forage.loop.host import runner as host

    def play_once(loop, environment, max_steps, start, chance, sampled):
        environment.reset(start)
        return host.EvaluationEpisodes(np.zeros(environment.num_envs), np.ones(environment.num_envs, int), {})

    monkeypatch.setattr(host, "play_once", play_once)
    monkeypatch.setattr(host, "check_copy", lambda spec, batch, which: None)
    runner = HostRunner.__new__(HostRunner)
    runner.num_envs, runner.build, runner._evaluation, runner._open = 4, build, None, []
    runner.loops = [
        SimpleNamespace(seed=seed, environment=SimpleNamespace(evaluation_envs=0), learner=SimpleNamespace(spec=None))
        for seed in (0, 1)
    ]
    for number in range(3):
        assert runner.evaluate(10, 5, 500_009 + number).returns.shape == (2, 10)
    assert [batch.num_envs for batch in built] == [4] and len(set(built[0].seeds)) == 3 * 2 * 3
    runner.evaluate(2, 5, 0)
    assert [batch.num_envs for batch in built] == [4, 2] and not built[0].open
    runner.close()
    assert not built[1].open


def test_films_are_what_the_environment_draws(tmp_path, monkeypatch):
    import imageio.v3 as imageio

    from forage.studies import film
    from forage.studies.film import Frame

    pictures = [np.full((300 + 10 * i, 401, 3), 200, np.uint8) for i in range(3)]

    def write(path):
        film.prepare_film(path)
        film.Film(path, 10, "seed 3", frames=[Frame(picture, "return 1") for picture in pictures]).write()

    write(tmp_path / "new" / "a.gif")
    shown = imageio.imread(tmp_path / "new" / "a.gif")
    strip = shown.shape[1] - 320
    assert shown.shape == (3, 320 + strip, 401, 3) and 20 < strip < 40
    assert shown[0, 200].mean() == 200 and shown[0, 315].mean() == 0 and shown[0, -1].mean() == 255
    assert shown[0, 320:].min() < 100  # the caption
    assert imageio.immeta(tmp_path / "new" / "a.gif")["duration"] == 100
    write(tmp_path / "a.webp")
    assert imageio.imread(tmp_path / "a.webp", plugin="pillow", index=...).shape == shown.shape
    (tmp_path / "file").write_text("")
    (tmp_path / "b.gif").mkdir()
    for path in (tmp_path / "file" / "a.gif", tmp_path / "file" / "a.mp4", tmp_path / "b.gif"):
        assert "Could not write" in say(film.prepare_film, path)
    if not film.importlib.util.find_spec("imageio_ffmpeg"):
        assert "forage-rl[video]" in say(film.prepare_film, tmp_path / "a.mp4")
        return
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        write(tmp_path / "a.mp4")
    assert imageio.imread(tmp_path / "a.mp4", plugin="FFMPEG").shape == (3, 320 + strip + strip % 2, 402, 3)


@pytest.mark.thorough
def test_json_is_alone_on_standard_output(folder, tmp_path):
    """Output of an environment, and of processes that it starts, goes elsewhere."""
    (folder / "my_loud.py").write_text(
        "from my_package import *\nimport os\nprint('hello')\nclass Loud(Base):\n"
        "    def reset(self, seed=None, options=None):\n        os.system('echo loud')\n"
        "        return super().reset(seed=seed)\n"
    )
    words = [*small.words(small.PPO), "--steps", "16", "--seeds", "1", "--evaluation-episodes", "1", "--json"]
    done = small.forage("train", "ppo", "my_loud.py:Loud", *words, "--directory", tmp_path / "run", cwd=folder)
    assert done.returncode == 0, done.stderr
    assert [json.loads(line)["event"] for line in done.stdout.splitlines()][-1] == "result"
    assert "hello" in done.stderr and "loud" in done.stderr
