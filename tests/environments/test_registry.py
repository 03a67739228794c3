"""From ids to environments."""

import importlib.util
import pickle
import subprocess
import sys

import gymnasium
import numpy as np
import pytest
import small
from tiers import gate_cases

from forage.core.host import HostEnvironment
from forage.core.ports import Environment
from forage.core.ranges import declared_range
from forage.core.types import ForageError
from forage.environments import HostFactory, canonical_id, list_environments, make, spec_of
from forage.environments.catalogue import NATIVE
from forage.environments.checking import check_environment
from forage.environments.registry import maker_of

NATIVE_IDS = ["DeepSea-8" if name == "DeepSea-N" else name for name in NATIVE]
FIRST = {id.partition(":")[0]: id for id in reversed(NATIVE_IDS)}.values()  # of each family


def undeclared_class(environment):
    """Return the numeric fields of a native environment without a declared range."""
    while hasattr(environment, "environment"):
        environment = environment.environment
    numbers = [name for name, value in vars(environment).items() if type(value) in (int, float)]
    return [name for name in numbers if declared_range(type(environment), name) is None]


@pytest.mark.parametrize("id", gate_cases(NATIVE_IDS, FIRST))
@pytest.mark.thorough
def test_every_native_id_makes_what_its_spaces_promise(id):
    environment = make(id)
    spec = spec_of(environment, id)
    assert isinstance(environment, Environment) and spec.name == id
    check_environment(environment, id)
    assert not undeclared_class(environment), f"{id}: give {undeclared_class(environment)} a range in `ranges`"
    assert canonical_id(id.upper()) == id


def test_what_a_function_makes_is_shown_with_the_functions_options():
    maker, options = maker_of("tabular:riverswim-12")
    assert maker.__name__ == "river_swim" and options["size"] == 12 and options["max_steps"] == 100
    assert maker_of("CartPole-v1") is None and maker_of("DeepSea-10") is None and maker_of("gymnasium:Ant-v5") is None


def test_fields_are_replaced():
    assert make("CartPole-v1").horizon == 500
    assert make("CartPole-v0").horizon == 200
    assert make("CartPole-v1", max_steps=50, length=1.0).horizon == 50
    assert float(make("CartPole-v1", length=1.0).length) == 1.0
    assert make("DeepSea-13").observation_space.shape == (13, 13)
    masked = make("CartPole-masked", max_steps=70)
    assert masked.observation_space.shape == (2,) and masked.horizon == 70


@pytest.mark.parametrize(
    ("id", "options", "words"),
    [
        ("CartPole-v1", {"lenght": 1.0}, ["lenght", "length"]),
        ("DeepSea-8", {"size": 9}, ["DeepSea-9"]),
        ("CartPole-v1", {"length": -1}, ["length of CartPole-v1 is above 0, not -1."]),
        ("CartPole-masked", {"max_steps": 0}, ["max_steps of CartPole-masked is 1 or more, not 0."]),
        ("Pendulum-v1", {"mass": float("nan")}, ["mass of Pendulum-v1 is above 0, not nan."]),
        ("minatar:Breakout", {"sticky_action_prob": 1.5}, ["from 0 to 1, not 1.5"]),
        ("CartPole-v7", {}, ["CartPole-v7", "CartPole-v1"]),
        ("HalfCheetah-v5", {}, ["gymnasium:HalfCheetah-v5"]),
        ("minatar:Brekout", {}, ["minatar:Breakout"]),
        ("gymnasium:HalfCheeta-v5", {}, ["gymnasium:HalfCheetah-v5"]),
        ("qqqqqqqqqq", {}, ["qqqqqqqqqq", "forage list"]),
        ("no_such_module_here:Class", {}, ["no_such_module_here", "file.py:Class"]),
        ("missing.py:Class", {}, ["missing.py"]),
        ("forage.core.types:Stepp", {}, ["Stepp", "Step"]),
        ("forage.core.types:Step", {}, ["not an environment", "gymnasium.Env"]),
    ],
)
def test_what_is_not_there_is_answered_with_what_is(id, options, words):
    with pytest.raises(ForageError) as caught:
        make(id, **options)
    for word in words:
        assert word in str(caught.value)


def test_gymnasium_ids_are_made_on_the_host():
    factory = make("gymnasium:CartPole-v1", max_episode_steps=30)
    assert isinstance(factory, HostFactory)
    factory = pickle.loads(pickle.dumps(factory))
    spec = factory.spec()
    assert (spec.name, spec.horizon) == ("gymnasium:CartPole-v1", 30)
    assert spec.action_space == gymnasium.spaces.Discrete(2)
    host = factory.build(2)
    assert isinstance(host, HostEnvironment) and host.reset(0).shape == (2, 4)
    assert (host.spec.name, host.spec.observation_space) == (spec.name, spec.observation_space)
    assert canonical_id("gymnasium:cartpole-V1") == "gymnasium:CartPole-v1"
    with pytest.raises(ForageError, match="sutton_barto_reward"):
        make("gymnasium:CartPole-v1", sutton=True).build(1)


@pytest.mark.skipif(importlib.util.find_spec("ale_py") is None, reason="ale-py is not installed")
def test_older_atari_ids_are_preprocessed_too():
    for id in ("gymnasium:ALE/Pong-v5", "gymnasium:PongNoFrameskip-v4"):
        assert make(id, size=42, stack=2).spec().observation_space.shape == (42, 42, 2)


@pytest.mark.skipif(importlib.util.find_spec("envpool") is None, reason="envpool is not installed")
def test_envpool_ids_are_made_on_the_host():
    assert make("envpool:CartPole-v1").build(2).reset(0).shape == (2, 4)
    with pytest.raises(ForageError, match="CartPole-v1"):
        make("envpool:CartPoel-v1")


OWN = '''
import gymnasium
import numpy as np
from forage.environments.classic.cartpole import CartPole
from forage.environments.adapters.on_host import OnHost

class Long(CartPole):
    """A longer pole."""
    length: float = 2.0

class Foreign(gymnasium.Env):
    observation_space = gymnasium.spaces.Box(-1, 1, (3,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)
    def __init__(self, weight=1.0):
        self.weight = weight
    def reset(self, seed=None, options=None):
        return np.zeros(3, np.float32), {}
    def step(self, action):
        return np.zeros(3, np.float32), self.weight, False, False, {}

class Stepped(OnHost):
    def __init__(self, num_envs, length=0.5):
        super().__init__(CartPole(length=length), num_envs, "stepped")
'''


@pytest.mark.thorough
def test_a_persons_own_classes(tmp_path, monkeypatch):
    (tmp_path / "own_environments.py").write_text(OWN)
    monkeypatch.chdir(tmp_path)
    for source in ("own_environments", str(tmp_path / "own_environments.py"), "own_environments.py"):
        assert float(make(f"{source}:Long").length) == 2.0
    with pytest.raises(ForageError, match="max_steps"):
        make("own_environments:Long", max_step=5)
    with pytest.raises(ForageError, match="Long"):
        make("own_environments.py:Lonk")

    foreign = make("own_environments.py:Foreign", weight=3.0, max_episode_steps=4)
    assert foreign.spec().horizon == 4
    host = foreign.build(2)
    host.reset(0)
    np.testing.assert_array_equal(host.step(np.zeros(2, int)).step.reward, [3.0, 3.0])

    stepped = make("own_environments.py:Stepped", length=1.0).build(3)
    assert isinstance(stepped, HostEnvironment) and stepped.reset(0).shape == (3, 4)


def test_the_list_has_every_kind():
    rows = list_environments()
    ids = [row.id for row in rows]
    assert set(NATIVE) <= set(ids) and "gymnasium:Pendulum-v1" in ids
    assert len(ids) == len(set(ids))
    assert {"native", "gymnasium", "your own"} <= {row.kind for row in rows}
    assert all(row.description and "\n" not in row.description for row in rows)


@pytest.mark.thorough
def test_only_what_is_named_is_imported():
    code = (
        "import sys\n"
        "from forage.environments import make, list_environments\n"
        "list_environments(libraries=False)\n"
        "assert not [name for name in sys.modules if name.startswith('forage.environments.classic')]\n"
        "make('CartPole-v1')\n"
        "late = ['envpool', 'mujoco', 'torch']\n"
        "late += [f'forage.environments.classic.{name}' for name in ('acrobot', 'deep_sea')]\n"
        "assert not set(late) & set(sys.modules), set(late) & set(sys.modules)\n"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=small.PATIENCE)
    assert result.returncode == 0, result.stderr
