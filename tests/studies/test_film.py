"""Films: their rate, their captions, their size, and messages while they are made."""

import importlib.util
import sys

import gymnasium
import imageio.v3 as imageio
import numpy as np
import pytest
from PIL import Image

from forage.cli.watch import filming
from forage.core.errors import ForageError
from forage.environments.registry import make
from forage.environments.wrappers.time import ActionRepeat, TimeLimit
from forage.runs.display import Waiting
from forage.studies import film
from forage.studies.film import Film, Frame


def noise(number, size=(300, 400)):
    return [np.random.default_rng(i).integers(0, 255, (*size, 3), np.uint8) for i in range(number)]


def play(path, per_second, steps):
    told = []
    made = Film(path, per_second, "seed 3", lambda *what: told.append(what))
    for step, picture in enumerate(noise(steps, (240, 240))):
        made.take(lambda picture=picture: picture, step, 0.5 * step)
    made.end(lambda: np.zeros((240, 240, 3), np.uint8), steps, 0.5 * steps)
    return made, told


@pytest.mark.parametrize(
    ("suffix", "per_second", "every"), [(".gif", 50, 2), (".mp4", 50, 1), (".mp4", 125, 2), (".webp", 4, 1)]
)
def test_a_film_has_the_rate_of_what_it_shows(tmp_path, suffix, per_second, every):
    made, told = play(tmp_path / f"a{suffix}", per_second, 10)
    assert made.next_picture == every and told == [(0, step, 0.5 * step) for step in range(10)]
    captions = [frame.caption for frame in made.frames]
    assert captions[: -(-10 // every)] == [f"return {0.5 * s:g}   step {s}   seed 3" for s in range(0, 10, every)]
    held = captions[-(-10 // every) :]  # the last picture stands for a while, and says the whole return
    assert set(held) == {"return 5   step 10   seed 3"} and len(held) == max(1, round(0.7 * per_second / every))
    assert made.episode == 1


def test_the_file_plays_at_that_rate(tmp_path):
    made, _ = play(tmp_path / "a.webp", 20, 6)
    made.write()
    with Image.open(made.path) as image:
        image.load()
        assert image.info["duration"] == 50
    shown = imageio.imread(made.path, plugin="pillow", index=...)
    assert len(shown) >= 6 and shown.shape[1] > 240  # the caption has a strip of its own
    if importlib.util.find_spec("imageio_ffmpeg") is None:
        pytest.skip("the extra video is not here")
    made, _ = play(tmp_path / "a.mp4", 20, 6)
    made.write()
    assert imageio.immeta(made.path, plugin="FFMPEG")["fps"] == 20


def test_native_environments_have_the_rate_of_their_models():
    for name in ("CartPole-v1", "Pendulum-v1", "Acrobot-v1", "MountainCar-v0", "MountainCarContinuous-v0"):
        assert make(name).frames_per_second == gymnasium.make(name).metadata["render_fps"], name
    assert TimeLimit(make("CartPole-v1"), 9).frames_per_second == 50
    assert ActionRepeat(make("CartPole-v1"), 5).frames_per_second == 10


def test_a_film_is_reduced_until_it_is_small_enough(tmp_path):
    made = Film(tmp_path / "a.webp", 10, frames=[Frame(picture, "return 1") for picture in noise(8)])
    width = made.write()
    whole = made.path.stat().st_size
    assert width == 400
    assert made.write(whole / 2e6) < 400 and made.path.stat().st_size <= whole / 2
    with pytest.raises(ForageError, match=r"8 pictures do not fit into 0.0001 MB; film fewer steps, or allow more"):
        made.write(0.0001)
    assert not made.path.exists()


def test_small_pictures_are_magnified_and_large_ones_reduced():
    small = np.arange(75, dtype=np.uint8).reshape(5, 5, 3)
    large = film.resize(small)
    assert large.shape == (240, 240, 3) and (large[:48, :48] == small[0, 0]).all()
    assert film.resize(np.zeros((800, 1600, 3), np.uint8)).shape == (320, 640, 3)


def test_the_best_kind_of_film_that_can_be_made(monkeypatch, tmp_path):
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "imageio_ffmpeg" else find(name))
    assert film.default_suffix() == ".webp"
    with pytest.raises(ForageError, match=r"pip install 'forage-rl\[video\]'; a .webp or a .gif needs none"):
        film.prepare_film(tmp_path / "a.mp4")
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: object())
    assert film.default_suffix() == ".mp4"
    with pytest.raises(ForageError, match=r"A film is an .mp4, a .webp or a .gif, and a.png is none of them"):
        film.prepare_film(tmp_path / "a.png")


def test_progress_is_said_where_a_film_takes_long(capsys, monkeypatch):
    with Waiting() as tell:
        progress = filming(tell, 2)
        progress(0, 1, 1.0)
        assert capsys.readouterr().err == ""  # not at once
        tell.next = 0
        progress(1, 1200, 33.5)
    assert capsys.readouterr().err == "filming episode 2 of 2: step 1,200, return 33.5\n"
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    with Waiting() as live:
        live.next = 0
        filming(live, 1)(0, 5, 2.0)
    assert capsys.readouterr().err == "\rfilming episode 1 of 1: step 5, return 2\x1b[K\r\x1b[K"
