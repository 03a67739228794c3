"""Runs that several journeys look at, made once."""

import shutil

import pytest
import small
import strangers

small.keep_compiled()


@pytest.fixture(scope="session")
def make_run(tmp_path_factory):
    """PPO on CartPole with two seeds, finished; journeys that write into it take a copy (`run`)."""
    return small.train(tmp_path_factory.mktemp("journeys") / "ppo")


@pytest.fixture
def run(make_run, tmp_path):
    from forage.runs.run import Run

    return Run(shutil.copytree(make_run.directory, tmp_path / "ppo"))


@pytest.fixture(scope="session")
def sweep(tmp_path_factory):
    """Two learning rates with two seeds each."""
    rates = {"learning_rate": [1e-3, 1e-4]}
    return small.train(tmp_path_factory.mktemp("journeys") / "sweep", sweep=rates)


CLAIM = """
[{name}]
title = "A Paper"
authors = "Somebody"
year = 2020
source = "2001.00001"
statement = "It is so."
parts = ["ppo", "rnd"]
environment = "CartPole-v1"
treatment = "new"
measure = "evaluated"
measured = "return"
laptop = {{steps = 50_000}}
smoke = {{steps = 4096}}
paper = {{environment = "CartPole-v1", steps = 50_000, seeds = 3}}
needs = "hours"
[{name}.arms]
old = {{agent = "ppo", options = {{epochs = 1}}}}
new = {{agent = "ppo", options = {{epochs = 10}}}}
"""


@pytest.fixture
def claims(tmp_path):
    """Three claims of a package, unless Forage's papers have them."""
    files = {"papers_of_somebody/__init__.py": "PARTS = {}\nCLAIMS = 'papers_of_somebody'\n"}
    names = ("gae-lambda", "gsde", "ppo-epochs")
    files["papers_of_somebody/theme.toml"] = "".join(CLAIM.format(name=name) for name in names)
    for site in strangers.site_at(tmp_path / "site"):
        strangers.install(site, "papers-of-somebody", files)
        yield
