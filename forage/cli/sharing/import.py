"""`forage import`: make a run of another library's trained policy."""

from __future__ import annotations

from forage.cli.arguments import display, nothing_left, say, take_options
from forage.config import options
from forage.core.errors import ForageError

HELP = """\
forage import MODEL.zip ENVIRONMENT [OPTIONS]

Makes a run of a policy that Stable-Baselines3 saved (PPO, A2C, SAC, TD3, DDPG or DQN with MlpPolicy), with the same
actions. Commands take it as any other run: evaluate, watch, export, serve, and train --from trains it on. PyTorch is
not needed, and no code in the file is run.

  --directory DIR        the run's directory; by default a new one in runs/
  --normalisation FILE   the saved VecNormalize; by default MODEL_vecnormalize.pkl or vecnormalize.pkl in its folder
  --env.OPTION VALUE     any option of the environment
  --wrap NAME:VALUE      a wrapper around the environment; may be given more than once
  --quiet | --json       show nothing; show the run as one JSON object

Examples
  forage import model.zip gymnasium:CartPole-v1
  forage import best_model.zip gymnasium:HalfCheetah-v5 --normalisation vecnormalize.pkl --directory runs/cheetah
"""


def run(positional: list[str], words: options.Words) -> None:
    """Run `forage import`."""
    if len(positional) != 2:
        raise ForageError(
            "forage import takes a model and the environment that it was trained in: forage import model.zip "
            "gymnasium:CartPole-v1."
        )
    kind = display(words)
    values = take_options(words, "environment_options", "wrap", "directory")
    normalisation = words.pop("normalisation", None)
    nothing_left(words, "import", ["directory", "normalisation", "wrap"])
    from forage.runs.training import use_compilation_cache
    from forage.studies.sb3.importing import import_policy

    use_compilation_cache()
    said: list[str] = []
    found = import_policy(
        positional[0],
        positional[1],
        normalisation=None if normalisation is None else str(normalisation),
        note=said.append,
        **values,
    )
    if kind == "json":
        say({"run": str(found.directory), "imported": found.config["imported"]})
    elif kind != "quiet":
        print(*said, f"{found.directory}  (forage evaluate {found.directory} plays it)", sep="\n")
