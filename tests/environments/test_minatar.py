"""The MinAtar games against the `minatar` package, fed with the same random numbers."""

from __future__ import annotations

from typing import Any, NamedTuple

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from beside import Beside, assert_beside
from tiers import first, gate_cases

from forage.core.types import ForageError
from forage.environments.minatar import Asterix, Breakout, Freeway, MinAtar, Seaquest, SpaceInvaders
from forage.environments.minatar.asterix import AsterixDraws, AsterixState
from forage.environments.minatar.breakout import BreakoutDraws, BreakoutState
from forage.environments.minatar.common import ACTIONS
from forage.environments.minatar.freeway import FreewayDraws, FreewayState
from forage.environments.minatar.seaquest import (
    BULLETS,
    DIVERS,
    ENEMIES,
    Bullets,
    Divers,
    Enemies,
    SeaquestDraws,
    SeaquestState,
)
from forage.environments.minatar.space_invaders import SpaceInvadersDraws, SpaceInvadersState


def load_minatar() -> Any:
    """Import the package of the games with the first test that asks for it: it takes half a second."""
    return pytest.importorskip("minatar")


GAMES: dict[str, type[MinAtar]] = {
    "asterix": Asterix,
    "breakout": Breakout,
    "freeway": Freeway,
    "seaquest": Seaquest,
    "space_invaders": SpaceInvaders,
}
RAMPING = {"asterix", "seaquest", "space_invaders"}


class Recorder:
    """A random generator in place of the package's own, with a record of the numbers it gave out."""

    def __init__(self, seed: int):
        self.random = np.random.RandomState(seed)
        self.given: list[Any] = []

    def rand(self, *shape: int) -> Any:
        self.given.append(self.random.rand(*shape))
        return self.given[-1]

    def randint(self, *args: Any, **kwargs: Any) -> Any:
        value = self.random.randint(*args, **kwargs)
        self.given.append(np.copy(value))  # the package changes what it gets
        self.bound = args[0] if len(args) == 1 else None
        return value


def columns(grid: np.ndarray, dtype: Any = np.int32) -> np.ndarray:
    """One integer for each column, bit y is row y."""
    return (grid.astype(bool) * (1 << np.arange(10))[:, None]).sum(0).astype(dtype)


def pad(values: list[Any], size: int) -> np.ndarray:
    assert len(values) <= size
    return np.array(values + [0] * (size - len(values)), np.int32)


# The package's state as ours.


def asterix_state(game: Any, last: int, time: int) -> AsterixState:
    slots = [entity or [0, 0, False, False] for entity in game.entities]
    return AsterixState(
        game.player_x,
        game.player_y,
        np.array([entity is not None for entity in game.entities]),
        np.array([slot[0] for slot in slots]),
        np.array([slot[2] for slot in slots], bool),
        np.array([slot[3] for slot in slots], bool),
        game.spawn_timer,
        game.spawn_speed,
        game.move_timer,
        game.move_speed,
        game.ramp_timer,
        game.ramp_index,
        last,
        time,
    )


def breakout_state(game: Any, last: int, time: int) -> BreakoutState:
    bricks = int((game.brick_map[1:4].astype(bool).reshape(-1) * (1 << np.arange(30))).sum())
    ball = (game.ball_x, game.ball_y, game.ball_dir, game.last_x, game.last_y)
    return BreakoutState(game.pos, *ball, bricks, np.bool_(game.strike), last, time)


def freeway_state(game: Any, last: int, time: int) -> FreewayState:
    x, _, timer, speed = np.array(game.cars).T
    elapsed = 2500 - game.terminate_timer
    return FreewayState(game.pos, game.move_timer, x, timer, np.abs(speed), speed > 0, last, elapsed)


def space_invaders_state(game: Any, last: int, time: int) -> SpaceInvadersState:
    return SpaceInvadersState(
        game.pos,
        columns(game.alien_map),
        columns(game.f_bullet_map),
        columns(game.e_bullet_map),
        np.bool_(game.alien_dir > 0),
        game.enemy_move_interval,
        game.alien_move_timer,
        game.alien_shot_timer,
        game.shot_timer,
        game.ramp_index,
        last,
        time,
    )


def seaquest_state(game: Any, last: int, time: int) -> SeaquestState:
    bullets = game.f_bullets[::-1]
    divers = game.divers[::-1]
    enemies = [[*fish, 0] for fish in game.e_fish] + game.e_subs
    shots = np.zeros((2, 10, 10))
    for x, y, right in game.e_bullets:
        shots[int(right), y, x] = 1

    def field(entities: list[Any], size: int, index: int, dtype: Any = np.int32) -> np.ndarray:
        return pad([int(entity[index]) for entity in entities], size).astype(dtype)

    def present(entities: list[Any], size: int) -> np.ndarray:
        return np.arange(size) < len(entities)

    return SeaquestState(
        player_x=game.sub_x,
        player_y=game.sub_y,
        faces_right=np.bool_(game.sub_or),
        oxygen=game.oxygen,
        crew=game.diver_count,
        surfaced=np.bool_(game.surface),
        bullets=Bullets(
            present(bullets, BULLETS),
            field(bullets, BULLETS, 0),
            field(bullets, BULLETS, 1),
            field(bullets, BULLETS, 2, bool),
        ),
        divers=Divers(
            present(divers, DIVERS),
            field(divers, DIVERS, 0),
            field(divers, DIVERS, 1),
            field(divers, DIVERS, 2, bool),
            field(divers, DIVERS, 3),
        ),
        enemies=Enemies(
            present(enemies, ENEMIES),
            field(enemies, ENEMIES, 0),
            field(enemies, ENEMIES, 1),
            field(enemies, ENEMIES, 2, bool),
            np.arange(ENEMIES) >= len(game.e_fish),
            field(enemies, ENEMIES, 3),
            field(enemies, ENEMIES, 4),
        ),
        next=len(enemies) % ENEMIES,
        shots_left=columns(shots[0].T),
        shots_right=columns(shots[1].T),
        spawn_timer=game.e_spawn_timer,
        spawn_interval=game.e_spawn_speed,
        diver_timer=game.d_spawn_timer,
        move_interval=game.move_speed,
        shot_timer=game.shot_timer,
        ramp_index=game.ramp_index,
        last_action=last,
        time=time,
    )


# The package's random numbers of one step as ours; `due` is what it was due to draw for.


def asterix_draws(repeat: bool, given: list[Any], due: Any, bound: int | None) -> AsterixDraws:
    right, gold, slot = (*given, 0)[:3] if due else (1, 1, 0)
    middle = (int(slot) + 0.5) / bound if bound and len(given) == 3 else 0.0
    return AsterixDraws(repeat, np.bool_(right < 1 / 2), np.bool_(gold < 1 / 3), np.float32(middle))


def breakout_draws(repeat: bool, given: list[Any], due: Any, bound: int | None) -> BreakoutDraws:
    return BreakoutDraws(repeat)


def freeway_draws(repeat: bool, given: list[Any], due: Any, bound: int | None) -> FreewayDraws:
    interval, side = given or (np.ones(8), np.zeros(8))
    return FreewayDraws(repeat, np.asarray(interval, np.int32), np.asarray(side) > 0.5)


def seaquest_draws(repeat: bool, given: list[Any], due: Any, bound: int | None) -> SeaquestDraws:
    given = list(given)
    right, submarine, y = (given.pop(0), given.pop(0), given.pop(0)) if due[0] else (1, 1, 1)
    diver_right, diver_y = given if due[1] else (1, 1)
    return SeaquestDraws(
        repeat,
        np.bool_(right < 1 / 2),
        np.bool_(submarine < 1 / 3),
        np.int32(y),
        np.bool_(diver_right < 1 / 2),
        np.int32(diver_y),
    )


def space_invaders_draws(repeat: bool, given: list[Any], due: Any, bound: int | None) -> SpaceInvadersDraws:
    return SpaceInvadersDraws(repeat)


def due(name: str, game: Any) -> Any:
    if name == "asterix":
        return game.spawn_timer == 0
    return (game.e_spawn_timer == 0, game.d_spawn_timer == 0) if name == "seaquest" else None


def disturb(name: str, game: Any, random: np.random.RandomState) -> None:
    """Put the package's game into states that random play hardly ever reaches."""
    if name == "asterix":
        game.spawn_speed, game.move_speed = random.randint(1, 5), random.randint(1, 4)
        game.ramp_timer, game.ramp_index = random.randint(-1, 2), random.randint(10)
    elif name == "breakout":
        game.brick_map[1:4] = random.rand(3, 10) < random.choice([0.0, 0.05, 0.5])
    elif name == "freeway":
        game.pos, game.move_timer = random.randint(1, 4), 0
        if random.rand() < 0.2:
            game.terminate_timer = random.randint(3)
    elif name == "space_invaders":
        game.alien_map[:] = 0
        game.alien_map[random.randint(3, 10, 3), random.randint(0, 10, 3)] = 1
        game.enemy_move_interval = random.randint(5, 13)
        game.alien_dir = int(random.choice([-1, 1]))
    else:
        index = max(game.ramp_index, random.randint(20))
        game.ramp_index, game.e_spawn_speed, game.move_speed = index, max(1, 20 - index), max(2, 5 - index // 2)
        game.diver_count, game.oxygen = random.randint(-1, 7), random.choice([random.randint(1, 200), 200])
        game.sub_y = random.randint(1, 3)
        if game.e_subs and not game.f_bullets:  # a bullet about to hit a submarine and two fish in one cell
            x, y, right, timer, _ = game.e_subs[random.randint(len(game.e_subs))]
            game.e_fish += [[x, y, right, (timer + 1) % 3], [x, y, right, (timer + 2) % 3]]
            game.f_bullets = [[x - 1, y, True] if x > 0 else [x + 1, y, False]]


class Recording(NamedTuple):
    before: Any
    after: Any
    action: np.ndarray
    draws: Any
    observation: np.ndarray
    reward: np.ndarray
    terminated: np.ndarray
    start: np.ndarray  # the step is an episode's first


def stack(rows: list[Any]) -> Any:
    def leaf(*values: Any) -> np.ndarray:
        array = np.stack(values)
        return array.astype(np.int32) if array.dtype.kind == "i" else array

    return jax.tree.map(leaf, *rows)


def record(name: str, env: MinAtar, ramping: bool, steps: int, seed: int, disturbed: bool) -> Recording:
    """Play the package. A disturbed game continues after its end, to reach states that are rare in games."""
    reference = load_minatar().Environment(name, difficulty_ramping=ramping)
    recorder = reference.random = reference.env.random = Recorder(seed)
    random = np.random.RandomState(seed + 1)
    to_state, to_draws = globals()[f"{name}_state"], globals()[f"{name}_draws"]
    index = [ACTIONS.index(letter) for letter in env.actions]
    rows: list[tuple[Any, ...]] = []
    start, choice = True, 0
    for _ in range(steps):
        game = reference.env
        if start:
            reference.reset()
            reference.last_action, time = 0, 0
        if random.rand() < 0.7:
            choice = random.randint(len(index))
        before = to_state(game, index.index(reference.last_action), time)
        will_draw = due(name, game)
        recorder.given, recorder.bound = [], None
        reward, terminated = reference.act(index[choice])
        repeat = np.bool_(recorder.given[0] < reference.sticky_action_prob)
        draws = to_draws(repeat, recorder.given[1:], will_draw, recorder.bound)
        time += 1
        after = to_state(game, index.index(reference.last_action), time)
        rows.append((before, after, choice, draws, reference.state(), float(reward), bool(terminated), start))
        start = bool(terminated)
        if disturbed:
            start = start and random.rand() < 0.1
            game.terminal = False
            if name == "freeway":
                game.terminate_timer = max(game.terminate_timer, 0)
            elif name == "seaquest":
                game.oxygen = game.oxygen if game.oxygen > 0 else 200
            elif name == "breakout" and game.ball_y == 9:
                game.ball_y = 3
            if not start and random.rand() < 0.02:
                disturb(name, game, random)
    return Recording(*(stack(list(column)) for column in zip(*rows, strict=True)))


def canonical(state: Any) -> Any:
    """Make states of the same meaning equal: absent entities are zero, and Seaquest's enemies are sorted."""
    state = jax.tree.map(np.asarray, state)
    if isinstance(state, AsterixState):
        cleared = {field: np.where(state.present, getattr(state, field), 0) for field in ("x", "right", "gold")}
        return state._replace(**cleared)
    if isinstance(state, SeaquestState):
        groups = {}
        for name in ("bullets", "divers", "enemies"):
            group = getattr(state, name)
            submarine = getattr(group, "submarine", None)
            fields = [
                np.where(group.present & (submarine | (field != "shot_timer")), value, 0)
                if submarine is not None
                else np.where(group.present, value, 0)
                for field, value in zip(group._fields, group, strict=True)
            ]
            groups[name] = np.sort(np.ravel_multi_index(fields, [16] * len(fields)), axis=-1)
        return state._replace(**groups, next=np.zeros_like(state.next))
    return state


CASES = [(name, ramping) for name in GAMES for ramping in ((True, False) if name in RAMPING else (True,))]


def make(name: str, ramping: bool) -> MinAtar:
    """All six actions with ramping, the game's own without, so that both sets are played."""
    if name in RAMPING:
        return GAMES[name](ramping=ramping, minimal_actions=not ramping)
    return GAMES[name](minimal_actions=not ramping)


def compare(recording: Recording, step: Any, state: Any = None) -> Beside:
    found = {
        "observations": (step.observation, recording.observation),
        "rewards": (step.reward, recording.reward),
        "ends": ((step.terminated, step.truncated), (recording.terminated, np.zeros_like(recording.terminated))),
    }
    return found if state is None else found | {"states": (canonical(state), canonical(recording.after))}


def steps_beside(name: str, ramping: bool, steps: int = 3000) -> tuple[Recording, Beside]:
    """Each step from the package's own state, also from states that play hardly comes to."""
    env = make(name, ramping)
    recording = record(name, env, ramping, steps, seed=3, disturbed=True)
    state, step = jax.jit(jax.vmap(env.advance))(recording.before, recording.action, recording.draws)
    return recording, compare(recording, step, state)


def episodes_beside(name: str, ramping: bool, steps: int = 2600) -> tuple[Recording, Beside]:
    """Return whole episodes, without setting our state to the package's again."""
    env = make(name, ramping)
    recording = record(name, env, ramping, steps, seed=5, disturbed=False)

    def advance(state: Any, row: tuple[Any, ...]) -> tuple[Any, Any]:
        before, start, action, draws = row
        state = jax.tree.map(lambda new, old: jnp.where(start, new, old), before, state)
        return env.advance(state, action, draws)

    first = jax.tree.map(lambda leaf: jnp.asarray(leaf[0]), recording.before)
    rows = (recording.before, recording.start, recording.action, recording.draws)
    _, step = jax.jit(lambda state, rows: jax.lax.scan(advance, state, rows))(first, rows)
    return recording, compare(recording, step)


@pytest.mark.parametrize(
    ("name", "ramping"), gate_cases(CASES, [(name, True) for name in ("asterix", "breakout", "freeway")])
)
def test_each_step_equals_the_package_from_the_same_state(name: str, ramping: bool) -> None:
    recording, found = steps_beside(name, ramping)
    assert_beside(found)
    assert recording.reward.sum() > 10 and recording.terminated.sum() > 3
    if name in RAMPING and ramping:
        assert len(np.unique(recording.after.ramp_index)) > 1
    if name == "seaquest" and ramping:
        assert recording.after.enemies.present.sum(-1).max() > 15
        assert recording.after.crew.min() < 0 and recording.reward.max() > 3


@pytest.mark.parametrize(("name", "ramping"), CASES)
@pytest.mark.thorough
def test_whole_episodes_equal_the_package(name: str, ramping: bool) -> None:
    recording, found = episodes_beside(name, ramping)
    assert_beside(found)
    assert recording.terminated.sum() > 0


@pytest.mark.thorough
def test_seaquest_holds_every_enemy_there_can_be() -> None:
    """A submarine in every step, at the fastest pace, with the player safe at the surface: 29 are left after a step."""

    class RiggedRecorder(Recorder):
        def rand(self, *shape: int) -> float:
            return 0.3  # no sticky action, from the left, a submarine

        def randint(self, *args: Any, **kwargs: Any) -> int:
            self.count = getattr(self, "count", 0) + 1
            return 1 + (5 * self.count) % 8

    reference = load_minatar().Environment("seaquest")
    reference.random = reference.env.random = RiggedRecorder(0)
    game = reference.env
    game.e_spawn_timer, game.e_spawn_speed, game.move_speed, game.d_spawn_timer = 0, 1, 2, 1000
    state = jax.tree.map(jnp.asarray, stack([seaquest_state(game, 0, 0)]))
    state = jax.tree.map(lambda leaf: leaf[0], state)
    true, false = np.bool_(True), np.bool_(False)
    observations, count = [], []
    for _ in range(100):
        assert reference.act(0) == (0, False)
        observations.append(reference.state())
        count.append(len(game.e_subs))
    assert max(count) == 29

    def advance(state: SeaquestState, y: Any) -> tuple[Any, Any]:
        state, step = Seaquest().advance(state, jnp.int32(0), SeaquestDraws(false, true, true, y, true, jnp.int32(1)))
        return state, (step.observation, state.enemies.present.sum())

    _, (ours, present) = jax.lax.scan(advance, state, 1 + (5 * jnp.arange(1, 101)) % 8)
    np.testing.assert_array_equal(ours, observations)
    assert present.tolist() == count


@pytest.mark.parametrize("name", gate_cases(GAMES, ["breakout", "space_invaders"]))
def test_reset_equals_the_package(name: str) -> None:
    env = GAMES[name]()
    state, observation = jax.jit(jax.vmap(env.reset))(jax.random.split(jax.random.key(0), 64))
    assert observation.dtype == bool
    ours = {np.asarray(one).tobytes() for one in observation}
    reference = load_minatar().Environment(name)
    theirs = set()
    for _ in range(64):
        reference.reset()
        theirs.add(reference.state().tobytes())
    if name == "freeway":  # 10 ** 8 ways to start
        assert len(ours) > 60
        assert (np.asarray(state.car_timer) == np.asarray(state.car_interval)).all()
        assert set(np.unique(state.car_interval)) == set(range(1, 6))
        assert np.asarray(state.car_x).max() == 0 and (np.asarray(state.player_y) == 9).all()
    else:
        assert ours == theirs and len(ours) == (2 if name == "breakout" else 1)


@pytest.mark.parametrize("name", gate_cases(GAMES, ["breakout", "space_invaders"]))
def test_spaces_and_actions_equal_the_package(name: str) -> None:
    reference = load_minatar().Environment(name)
    for env in (GAMES[name](), GAMES[name](minimal_actions=False)):
        space = env.observation_space
        assert isinstance(space, gymnasium.spaces.Box) and space.dtype == bool
        assert space.shape == tuple(reference.state_shape())
        _, observation = env.reset(jax.random.key(0))
        assert space.contains(np.asarray(observation))
        package = reference.minimal_action_set() if env.minimal_actions else range(6)
        assert [ACTIONS.index(letter) for letter in env.actions] == list(package)
        assert env.action_space.n == len(package)
    assert [channel.replace("gauge", "guage") for channel in env.channels] == list(reference.env.channels)


def is_near(flags: Any, probability: float) -> bool:
    """Within five standard deviations of the mean."""
    flags = np.asarray(flags)
    return abs(flags.mean() - probability) < 5 * np.sqrt(probability * (1 - probability) / flags.size)


@pytest.mark.thorough
def test_draws_have_the_packages_distribution() -> None:
    keys = jax.random.split(jax.random.key(1), 20_000)
    for env in (Breakout(), SpaceInvaders(sticky_action_prob=0.25)):
        assert is_near(jax.vmap(env.draw)(keys).repeat, env.sticky_action_prob)
    asterix = jax.vmap(Asterix().draw)(keys)
    assert is_near(asterix.repeat, 0.1) and is_near(asterix.right, 1 / 2) and is_near(asterix.gold, 1 / 3)
    assert all(is_near(np.floor(asterix.slot * 8) == slot, 1 / 8) for slot in range(8))
    freeway = jax.vmap(Freeway().draw)(keys)
    assert is_near(freeway.repeat, 0.1)
    for interval in range(1, 6):
        for right in (False, True):
            assert is_near((freeway.interval == interval) & (freeway.right == right), 1 / 10)
    seaquest = jax.vmap(Seaquest().draw)(keys)
    assert (
        is_near(seaquest.repeat, 0.1) and is_near(seaquest.enemy_right, 1 / 2) and is_near(seaquest.diver_right, 1 / 2)
    )
    assert is_near(seaquest.enemy_submarine, 1 / 3)
    for y in range(1, 9):
        assert is_near(seaquest.enemy_y == y, 1 / 8) and is_near(seaquest.diver_y == y, 1 / 8)


@pytest.mark.thorough
def test_truncation_is_never_termination() -> None:
    env = Freeway(max_steps=5, time_limit=4)  # both end at step 5
    state, _ = env.reset(jax.random.key(0))
    step_once = jax.jit(env.step)
    steps = []
    for _ in range(5):
        state, step = step_once(state, 0, jax.random.key(0))
        steps.append((bool(step.terminated), bool(step.truncated)))
    assert steps == [(False, False)] * 4 + [(True, False)]

    env = Asterix(max_steps=3)
    state, _ = env.reset(jax.random.key(0))
    step_once = jax.jit(env.step)
    ends = []
    for _ in range(3):
        state, step = step_once(state, 0, jax.random.key(0))
        ends.append((bool(step.terminated), bool(step.truncated)))
    assert ends == [(False, False), (False, False), (False, True)]


def test_horizon() -> None:
    assert Asterix().horizon is None and Asterix(max_steps=100).horizon == 100
    assert Freeway().horizon == 2501 and Freeway(max_steps=1000).horizon == 1000


@pytest.mark.thorough
def test_constants_are_leaves_and_can_be_batched() -> None:
    """Two Asterix games of different pace are one `vmap`."""
    env = jax.tree.map(
        lambda *leaves: jnp.stack([jnp.asarray(leaf) for leaf in leaves]), Asterix(), Asterix(spawn_interval=2)
    )
    keys = jax.random.split(jax.random.key(0), 2)
    state, _ = jax.vmap(lambda env, key: env.reset(key))(env, keys)
    advance = jax.jit(jax.vmap(lambda env, state, key: env.step(state, 0, key)[0]))
    for _ in range(4):
        state = advance(env, state, keys)
    assert np.asarray(state.present).sum(-1).tolist() == [0, 1]


@pytest.mark.parametrize(
    ("make", "word"),
    [
        (lambda: Breakout(max_steps=0), "max_steps"),
        (lambda: Freeway(time_limit=-1), "time_limit"),
        (lambda: Seaquest(shot_cool_down=4), "shot_cool_down"),
        (lambda: Seaquest(diver_spawn_interval=29), "diver_spawn_interval"),
        (lambda: Seaquest(ramping=False, spawn_interval=1), "spawn_interval"),
    ],
)
def test_impossible_constants_are_refused(make: Any, word: str) -> None:
    with pytest.raises(ForageError, match=word):
        make()


@pytest.mark.parametrize("name", first(1, GAMES))
def test_render_shows_each_channel(name: str) -> None:
    env = GAMES[name]()
    assert len(set(env.palette)) == len(env.palette) == len(env.channels)
    state, observation = env.reset(jax.random.key(0))
    image = env.render(state)
    assert image.shape == (240, 240, 3) and image.dtype == np.uint8
    colours = {tuple(int(value) for value in pixel) for pixel in image.reshape(-1, 3)}
    active = np.flatnonzero(np.asarray(observation).any((0, 1)))
    assert all(env.palette[channel] in colours for channel in active)
