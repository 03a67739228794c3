"""Mazes: the free ball moves as in MuJoCo, never enters a wall, and can reach every goal."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from beside import Beside, assert_beside
from tiers import gate_cases

from forage.core.types import ForageError
from forage.environments import make
from forage.environments.checking import check_environment
from forage.environments.maze import layouts
from forage.environments.maze.collision import slide
from forage.environments.maze.ids import ENTRIES
from forage.environments.maze.point import PointMass, PointMassState, point_mass, point_maze

KEY = jax.random.key(0)
ROOM = np.array([[1, 1, 1, 1, 1], [1, 0, 0, 0, 1], [1, 0, 1, 0, 1], [1, 0, 0, 0, 1], [1, 1, 1, 1, 1]], bool)
"""A ring around one block over [-1/2, 1/2] in x and y."""

move = jax.jit(lambda position, velocity, walls, time=1.0: slide(position, velocity, time, walls, 0.1))


@pytest.mark.parametrize(
    ("position", "velocity", "end", "left"),
    [
        ((-1.0, 1.0), (0.3, 0.1), (-0.7, 1.1), (0.3, 0.1)),  # free
        ((-1.0, 0.0), (3.0, 0.0), (-0.6, 0.0), (0.0, 0.0)),  # head on into the block
        ((-1.0, 0.0), (3.0, 0.4), (-0.6, 0.4), (0.0, 0.4)),  # along its side
        ((-1.0, 0.0), (1.0, 1.0), (-0.6, 1.0), (0.0, 1.0)),  # up its side and beyond the corner
        ((-1.0, 0.0), (0.0, 9.0), (-1.0, 1.4), (0.0, 0.0)),  # much too fast, up to the outer wall
        ((-1.0, 0.9), (2.0, 3.0), (1.0, 1.4), (2.0, 0.0)),  # outer wall first, then along the top
        ((1.0, 1.0), (9.0, 9.0), (1.4, 1.4), (0.0, 0.0)),  # into a corner, both axes
        ((-1.0, 1.0), (0.4, -0.4), (-0.6, 0.6), (0.0, -0.4)),  # just up to the block's corner, which is a contact
        ((-1.0, 1.0), (0.8, -0.8), (-0.6, 0.2), (0.0, -0.8)),  # exactly onto the corner: it does not get in
        ((-1.0, 1.4), (2.0, 0.0), (1.0, 1.4), (2.0, 0.0)),  # touching the outer wall, along its joints
        ((-1.0, 1.4), (2.0, 0.5), (1.0, 1.4), (2.0, 0.0)),  # pressed against it
        ((-1.0, 0.6), (2.0, 0.0), (1.0, 0.6), (2.0, 0.0)),  # touching the block's top, just so
        ((0.0, 0.6), (0.1, -2.0), (0.1, 0.6), (0.1, 0.0)),  # resting on it
        ((-0.6, 0.0), (-0.3, 0.0), (-0.9, 0.0), (-0.3, 0.0)),  # away from its side
        ((-1.0, 1.0), (-0.0, 0.0), (-1.0, 1.0), (0.0, 0.0)),  # still
    ],
)
def test_sliding_by_hand(position, velocity, end, left):
    found, speed = move(jnp.array(position), jnp.array(velocity), jnp.asarray(ROOM))
    np.testing.assert_allclose(found, end, atol=1e-5)
    np.testing.assert_allclose(speed, left, atol=1e-5)


@pytest.mark.parametrize("layout", gate_cases(["UMaze", "Large"], ["UMaze"]))
def test_the_ball_never_enters_a_wall(layout):
    """A wild ride with forces and time steps far above the usual ones."""
    env = point_mass(layout, time_step=0.08, speed_limit=30.0, force=2000.0, max_steps=10_000, reach=6)

    def ride(key):
        state, _ = env.reset(key)

        def advance(state, key):
            action_key, key = jax.random.split(key)
            state, _ = env.step(state, jax.random.uniform(action_key, (2,), minval=-3, maxval=3), key)
            return state, state.position

        return jax.lax.scan(advance, state, jax.random.split(key, 400))[1]

    positions = np.asarray(jax.jit(jax.vmap(ride))(jax.random.split(KEY, 24))).reshape(-1, 2)
    walls = np.asarray(env.walls)
    rows, columns = np.argwhere(walls).T
    centres = np.stack([columns + 0.5 - walls.shape[1] / 2, walls.shape[0] / 2 - rows - 0.5], -1)
    depth = (0.6 - np.abs(positions[:, None] - centres)).min(-1)  # into the walls, widened by the radius
    assert depth.max() < 1e-4
    assert (np.abs(depth.max(-1)) < 1e-5).mean() > 0.1  # it did touch
    visited = {tuple(cell) for cell in np.floor(positions + np.array(walls.shape[::-1]) / 2).astype(int)}
    assert len(visited) > 6


@pytest.mark.thorough
def test_looking_only_nearby_changes_nothing():
    near, far = point_mass("Medium"), point_mass("Medium", reach=8)

    def ride(env, key):
        state, _ = env.reset(key)

        def advance(state, key):
            # Forces that last, so that the ball comes to its full speed.
            action = jax.random.uniform(jax.random.fold_in(KEY, state.time // 15), (2,), minval=-1, maxval=1)
            state, _ = env.step(state, action, key)
            return state, (state.position, state.velocity)

        return jax.lax.scan(advance, state, jax.random.split(key, 300))[1]

    keys = jax.random.split(KEY, 16)
    one, other = (jax.jit(jax.vmap(lambda key, env=env: ride(env, key)))(keys) for env in (near, far))
    np.testing.assert_allclose(one[0], other[0], atol=2e-3)  # rounding grows along the way
    assert np.abs(one[1]).max() > 5


def motion_beside(steps: int = 80) -> Beside:
    """Return the motion of a ball pushed about in free space, our own and MuJoCo's."""
    import mujoco

    model = mujoco.MjModel.from_xml_string(
        """<mujoco><option timestep="0.01" gravity="0 0 0" integrator="Euler"/>
        <default><joint damping="1"/><geom density="1000"/></default>
        <worldbody><body><geom type="sphere" size="0.1"/>
        <joint name="x" type="slide" axis="1 0 0"/><joint name="y" type="slide" axis="0 1 0"/></body></worldbody>
        <actuator><motor joint="x" gear="100"/><motor joint="y" gear="100"/></actuator></mujoco>"""
    )
    data = mujoco.MjData(model)
    env = point_mass("Open")
    state, _ = env.reset(KEY)
    state = state._replace(position=jnp.array([-1.5, 0.0]))
    data.qpos[:] = [-1.5, 0.0]
    step = jax.jit(lambda state, action: env.step(state, action, KEY))
    ours, theirs = [], []
    for time in range(steps):
        action = np.array([0.9 if time < 30 else -0.7, 0.4 * np.cos(time / 5)])
        data.qvel[:] = np.clip(data.qvel, -5, 5)  # as Gymnasium-Robotics does before each step
        data.ctrl[:] = action
        mujoco.mj_step(model, data)
        state, out = step(state, jnp.asarray(action, jnp.float32))
        ours.append(np.asarray(out.observation))
        theirs.append([*data.qpos, *data.qvel])
    return {"positions and velocities": (np.array(ours), np.array(theirs))}


@pytest.mark.thorough
def test_free_motion_is_mujocos():
    pytest.importorskip("mujoco")
    found = motion_beside()
    assert_beside(found, **{"positions and velocities": 3e-5})
    place, speed = np.split(found["positions and velocities"][1], 2, axis=1)
    assert np.abs(place).max() < 2.4 and (speed[-1] != 0).all()
    # Faster than the limit: clipped before the force acts.
    env = point_mass("Open")
    fast = PointMassState(jnp.array([-1.5, 0.0]), jnp.array([9.0, -9.0]), jnp.int32(0))
    after, _ = env.step(fast, jnp.zeros(2), KEY)
    np.testing.assert_allclose(after.velocity, np.array([5.0, -5.0]) * env.mass / (env.mass + 0.01), rtol=1e-6)


def way_home(env, goal_cell):
    """For each free cell the next one on a shortest way to the goal's."""
    walls = np.asarray(env.walls)
    found, front = {goal_cell: goal_cell}, [goal_cell]
    while front:
        row, column = cell = front.pop(0)
        for near in ((row - 1, column), (row + 1, column), (row, column - 1), (row, column + 1)):
            if not walls[near] and near not in found:
                found[near] = cell
                front.append(near)
    return found


@pytest.mark.parametrize("layout", ["UMaze", "Medium", "Large", "Corridor"])
@pytest.mark.thorough
def test_best_return_is_reached(layout):
    """A controller on the shortest way from cell to cell earns the largest return with `end`, 1, from any start."""
    env = make(f"maze:{layout}", on_success="end")
    mass = env.environment
    rows, columns = mass.walls.shape
    centres = np.asarray(mass.centres()).reshape(rows, columns, 2)
    targets = np.zeros((rows * columns, rows * columns, 2), np.float32)  # [goal cell, cell]
    for goal in np.argwhere(np.asarray(mass.goals)):
        for cell, following in way_home(mass, tuple(goal.tolist())).items():
            targets[goal[0] * columns + goal[1], cell[0] * columns + cell[1]] = centres[following]

    def cell_of(place):
        column = jnp.floor(place[0] + columns / 2).astype(int)
        return jnp.floor(rows / 2 - place[1]).astype(int) * columns + column

    def ride(key):
        state, observation = env.reset(key)

        def advance(carry, _):
            state, observation, over = carry
            place, velocity, goal = jnp.split(observation, 3)
            here, there = cell_of(place), cell_of(goal)
            aim = jnp.where(here == there, goal, jnp.asarray(targets)[there, here])
            state, step = env.step(state, jnp.clip(6 * (aim - place) - 1.2 * velocity, -1, 1), KEY)
            ended = step.terminated | step.truncated
            return (state, step.observation, over | ended), (jnp.where(over, 0, step.reward), step.terminated & ~over)

        _, (rewards, terminated) = jax.lax.scan(advance, (state, observation, jnp.zeros((), bool)), length=env.horizon)
        return rewards.sum(), terminated.any()

    returns, terminated = jax.jit(jax.vmap(ride))(jax.random.split(KEY, 32))
    assert (returns == 1).all() and terminated.all()


@pytest.mark.thorough
def test_goals_and_starts_are_drawn_apart():
    env = point_maze("UMaze")
    states, observations = jax.jit(jax.vmap(env.reset))(jax.random.split(KEY, 500))
    place, goal = np.asarray(observations[:, :2]), np.asarray(observations[:, 4:])
    assert np.linalg.norm(place - goal, axis=-1).min() >= 0.499
    cells = np.floor(np.stack([place, goal]) + 2.5).astype(int)
    assert (cells[0] != cells[1]).any(-1).all()
    free = {tuple(cell) for cell in (np.argwhere(~np.asarray(env.environment.walls)[::-1])[:, ::-1]).tolist()}
    assert {tuple(cell) for cell in cells[0].tolist()} == {tuple(cell) for cell in cells[1].tolist()} == free
    off = np.abs(np.stack([place, goal]) + 2.5 - cells - 0.5)
    assert 0.2 < off.max() <= 0.25 + 1e-5
    assert (np.asarray(states.inner.velocity) == 0).all()
    corridor = point_maze("Corridor")
    _, observation = corridor.reset(KEY)
    assert observation[0] < -9 and observation[4] > 9


@pytest.mark.thorough
def test_mazes_of_one_size_are_one_vmap():
    mazes = [point_mass("Medium"), point_mass("MediumDiverse")]
    batch = jax.tree.map(lambda *leaves: jnp.stack([jnp.asarray(leaf) for leaf in leaves]), *mazes)
    _, observations = jax.vmap(lambda env, key: env.reset(key))(batch, jax.random.split(KEY, 2))
    assert observations.shape == (2, 4)


def test_every_id_is_made():
    for name in ENTRIES:
        check_environment(make(name), name)
    assert make("maze:umaze").horizon == 300 and make("maze:Large-Dense").reward == "dense"
    assert set(make("maze:Medium-Goal").observation_space.spaces) == {"observation", "achieved_goal", "desired_goal"}


def maze(*rows, **fields):
    return PointMass(*layouts.parse_maze(rows), **fields)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: maze("###", "###", "###"), ["two free cells", "has 0"]),
        (lambda: maze("###", "#.#", "###"), ["two free cells", "has 1"]),
        (lambda: maze("#####", "#.#.#", "#####"), ["goal at row 1, column 3", "cannot be reached", "row 1, column 1"]),
        (lambda: maze("######", "#S#.G#", "######"), ["goal at row 1, column 4", "cannot be reached"]),
        (lambda: maze("####", "#...", "####"), ["walled in", "row 1, column 3"]),
        (lambda: maze("####", "#..", "####"), ["rows of one length"]),
        (lambda: maze("####", "#.x#", "####"), ["'x'"]),
        (lambda: maze(), ["rows of one length"]),
        (lambda: maze("####", "#C.#", "####"), ["another cell than its only start"]),
        (lambda: maze("####", "#..#", "####", max_steps=0), ["max_steps 0"]),
        (lambda: maze("####", "#..#", "####", radius=0.3), ["radius 0.3", "below 0.5"]),
        (lambda: maze("####", "#..#", "####", mass=0.0), ["mass 0.0"]),
        (lambda: maze("####", "#..#", "####", time_step=0.5), ["gets", "in a step", "reach"]),
        (lambda: PointMass(ROOM, ROOM, ROOM[:3]), ["one shape"]),
        (lambda: PointMass(ROOM, ROOM, ~ROOM), ["needs a start", "not in a wall"]),
        (lambda: point_maze("Huge"), ["'Huge'", "UMaze, Open"]),
        (lambda: point_maze(reward="dens"), ["'dens'", "sparse, penalty, dense, distance"]),
        (lambda: point_maze(on_success="stop"), ["'stop'", "stay, renew, end"]),
        (lambda: point_maze(radius=-1.0), ["radius -1.0"]),
    ],
)
def test_mistakes_are_named(make, words):
    with pytest.raises(ForageError) as error:
        make()
    assert all(word in str(error.value) for word in words), error.value
    assert "\n" not in str(error.value)
