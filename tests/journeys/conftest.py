"""Runs that several journeys look at, made once."""

import shutil

import pytest
import small

small.keep_compiled()


@pytest.fixture(scope="session")
def made(tmp_path_factory):
    """PPO on CartPole with two seeds, finished; journeys that write into it take a copy (`run`)."""
    return small.train(tmp_path_factory.mktemp("journeys") / "ppo")


@pytest.fixture
def run(made, tmp_path):
    from forage.runs.run import Run

    return Run(shutil.copytree(made.directory, tmp_path / "ppo"))


@pytest.fixture(scope="session")
def sweep(tmp_path_factory):
    """Two learning rates with two seeds each."""
    rates = {"learning_rate": [1e-3, 1e-4]}
    return small.train(tmp_path_factory.mktemp("journeys") / "sweep", sweep=rates)
