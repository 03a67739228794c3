"""Writes docs/parts/: a page for each part and wrapper, from its own docstring, options and presets.

Run after changing a part.


python docs/make/parts.py           writes
python docs/make/parts.py --check   exits 1 when a page is not what it would write
"""

from __future__ import annotations

import inspect
import json
import sys
from pathlib import Path

from forage.config import registry
from forage.config.presets import PRESETS

PAGES = Path(__file__).parents[1] / "parts"

COMMANDS = {
    "ppo": "forage train ppo CartPole-v1",
    "reinforce": "forage train reinforce language:Reverse-2 --starts groups --baseline group",
    "ppo-lagrangian": "forage train ppo-lagrangian grid:LavaToll-S5 --limit 0.25 --rewards weighted "
    "--rewards.names reward --rewards.weights 1",
    "dqn": "forage train dqn CartPole-v1",
    "sac": "forage train sac Pendulum-v1",
    "sac-discrete": "forage train sac-discrete CartPole-v1",
    "td3": "forage train td3 Pendulum-v1",
    "ucbvi": "forage train ucbvi tabular:RiverSwim-6 --env.max-steps 20 --bonus-scale 0.01",
    "psrl": "forage train psrl tabular:RiverSwim-6 --env.max-steps 20",
    "maxent": "forage train maxent tabular:RiverSwim-12 --env.max-steps 40",
    "bootstrapped-dqn": "forage train bootstrapped-dqn DeepSea-20 --steps 40k",
    "maxinfo-sac": "forage train maxinfo-sac MountainCarContinuous-v0",
    "sqirl": "forage train sqirl tabular:GridWorld-3x4 --steps 1280k",
    "mex": "forage train mex MountainCarContinuous-v0",
    "rrs": "forage train rrs Pendulum-v1",
    "langevin-dqn": "forage train langevin-dqn DeepSea-10 --steps 40k",
    "same": "forage train ppo CartPole-v1 --tasks same",
    "phases": "forage train ppo CartPole-v1 --tasks phases "
    "--tasks.field length --tasks.values 0.5,1.5 --tasks.times 100k",
    "contexts": "forage train ppo CartPole-v1 --tasks contexts --tasks.train length=0.25:1.0 "
    "--tasks.test length=1.0:2.0",
    "reset": "forage train ppo CartPole-v1 --starts reset",
    "archive": "forage train ppo DeepSea-10 --starts archive",
    "levels": "forage train ppo grid:DoorKey-5x5 --starts levels --starts.number 50",
    "groups": "forage train reinforce language:Reverse-2 --starts groups --baseline group",
    "prioritised-levels": "forage train ppo grid:DoorKey-5x5 --starts prioritised-levels --starts.number 200",
    "latent-go-explore": "forage train ppo DeepSea-14 --starts latent-go-explore",
    "snapshot": "forage train ppo grid:MultiRoom-N7-S8 --steps 2M --starts snapshot --starts.teacher solver "
    "--starts.episodes 600 --starts.every 3 --starts.clusters 10 --starts.share 0.7 --starts.probability 0.8",
    "go-explore": "forage train ppo DeepSea-20 --starts go-explore --starts.explore 0.3",
    "own": "forage train sac Pendulum-v1 --behaviour own --behaviour.random-steps 1000",
    "epsilon-greedy": "forage train dqn CartPole-v1 --behaviour epsilon-greedy --behaviour.end 0.01",
    "boltzmann": "forage train dqn CartPole-v1 --behaviour boltzmann --behaviour.final-temperature 0.1",
    "ez-greedy": "forage train dqn MountainCar-v0 --behaviour ez-greedy",
    "pink": "forage train sac MountainCarContinuous-v0 --behaviour pink",
    "ornstein-uhlenbeck": "forage train td3 MountainCarContinuous-v0 --exploration-noise 0.38 "
    "--behaviour ornstein-uhlenbeck",
    "held-noise": "forage train sac Pendulum-v1 --state-dependent-noise true --behaviour held-noise",
    "parameter-noise": "forage train dqn MountainCar-v0 --behaviour parameter-noise",
    "lesson": "forage train dqn DeepSea-10 --behaviour lesson",
    "guide": "see the Python example in its docstring",
    "environment": "forage train ppo CartPole-v1 --rewards environment",
    "scale": "forage train ppo Pendulum-v1 --rewards scale --rewards.factor 0.1",
    "normalise-return": "forage train ppo Pendulum-v1 --rewards normalise-return",
    "weighted": "forage train ppo DeepSeaTreasure-v0 --rewards weighted "
    "--rewards.names treasure,time --rewards.weights 1,0.1",
    "rnd": "forage train ppo DeepSea-10 --rewards rnd",
    "counts": "forage train dqn DeepSea-14 --rewards counts",
    "icm": "forage train ppo grid:MultiRoom-N2-S4 --rewards icm",
    "disagreement": "forage train ppo MountainCar-v0 --rewards disagreement",
    "e3b": "forage train ppo grid:MultiRoom-N4-S5 --rewards e3b",
    "episodic-novelty": "forage train ppo grid:MultiRoom-N2-S4 --rewards episodic-novelty",
    "shift": "forage train dqn tabular:RiverSwim-6 --rewards shift --rewards.shift=-0.5",
    "rollout": "forage train ppo CartPole-v1 --memory rollout",
    "uniform": "forage train dqn CartPole-v1 --memory uniform --memory.capacity 50k",
    "prioritised": "forage train dqn CartPole-v1 --memory prioritised",
    "hindsight": "forage train dqn BitFlip-20 --memory hindsight",
    "dyna": "forage train dqn tabular:FrozenLake-4 --n-step 1 --memory dyna --memory.outcomes 20",
    "frame-stack": "forage train ppo CartPole-masked --wrap frame-stack:4",
    "time-limit": "forage train ppo CartPole-v1 --wrap time-limit:200",
    "time-aware": "forage train ppo CartPole-v1 --wrap time-limit:200 --wrap time-aware",
    "action-repeat": "forage train ppo MountainCar-v0 --wrap action-repeat:4",
    "sticky-actions": "forage train ppo CartPole-v1 --wrap sticky-actions:0.25",
    "delay": "forage train ppo CartPole-v1 --wrap delay:action-delay=2",
    "rescale-action": "forage train sac Pendulum-v1 --wrap rescale-action:-1:1",
    "resize": "forage train ppo my_environments.py:Pictures --wrap grey --wrap resize:84:84 --wrap frame-stack:4",
    "grey": "forage train ppo my_environments.py:Pictures --wrap grey",
    "masked": "forage train ppo CartPole-v1 --wrap masked:0,2",
    "noisy-tv": "forage train ppo grid:MultiRoom-N4-S5 --rewards rnd --wrap noisy-tv:2",
    "context-visible": "forage train ppo CartPole-v1 --tasks contexts --tasks.train length=0.25:1.0 "
    "--wrap context-visible:length:0.25:1.0",
    "action-noise": "forage train ppo CartPole-v1 --wrap action-noise:0.3",
    "reward-noise": "forage train ppo CartPole-v1 --wrap reward-noise:0.5:0.25",
    "observation-noise": "forage train ppo CartPole-v1 --wrap observation-noise:0.1",
    "missing": "forage train ppo CartPole-v1 --wrap missing:0.25",
    "drift": "forage train ppo CartPole-v1 --wrap drift:gravity:0.5:100",
}


CLAIMS = {
    "reinforce": ("group-baseline",),
    "groups": ("group-baseline",),
    "ppo": ("ppo-clip", "ppo-epochs", "gae-lambda", "central-critic", "recurrence"),
    "dqn": ("target-network", "double-q-learning", "dueling-network", "n-step-returns"),
    "sac": ("sac-sample-efficiency", "sac-temperature"),
    "td3": ("td3-delay",),
    "contexts": ("domain-randomisation",),
    "levels": ("level-generalisation",),
    "archive": ("restart-distribution",),
    "guide": ("jump-start",),
    "prioritised": ("prioritised-replay",),
    "rnd": ("rnd-exploration",),
    "counts": ("count-bonus", "mbie-eb"),
    "icm": ("curiosity",),
    "e3b": ("elliptical-bonus",),
    "shift": ("reward-shift",),
    "held-noise": ("gsde",),
    "pink": ("pink-noise",),
}
"""What was claimed of a part; of any other part, the claim of its name, where there is one."""


def claims(name: str) -> list[str]:
    """The verdicts and pictures of a part's claims, as far as they were run."""
    lines = []
    for claim in CLAIMS.get(name, (name,)):
        path = PAGES.parent / "claims" / "results" / f"{claim}.json"
        if path.exists():
            found = json.loads(path.read_text())
            verdict = {"holds": "It **holds**", "fails": "It **fails**", "undecided": "It is **undecided**"}[
                found["verdict"]
            ]
            lines += [f"{found['statement']} {verdict} here: [{claim}](../claims/{claim}.md)."]
            lines += ["", f"![What each arm reached](../claims/{claim}.png)", ""]
            lines += [f"```sh\nforage claim {claim}\n```", ""]
    return ["## Claims", "", *lines] if lines else []


def page(port: str, name: str, target: str) -> str:
    """One part's page."""
    cls = registry.load(target)
    module = sys.modules[cls.__module__]
    prefix = "" if port == "agent" else f"{port}."
    lines = [f"# {name}", "", f"A part for the port **{port}**: `{target}`.", ""]
    lines += ["```text", inspect.cleandoc(module.__doc__ or ""), "", inspect.cleandoc(cls.__doc__ or ""), "```", ""]
    command = COMMANDS[name]
    lines += ["## Run it", "", f"```sh\n{command}\n```" if command.startswith("forage") else f"{command}", ""]
    lines += claims(name)
    fields = registry.fields(cls)
    if fields:
        lines += ["## Options", "", "| option | default | |", "|---|---|---|"]
        for field in fields:
            default = "required" if field.required else f"`{field.default}`"
            lines.append(f"| `--{prefix}{field.name.replace('_', '-')}` | {default} | {field.help} |")
        lines.append("")
    presets = [preset for preset in PRESETS if preset.agent == name]
    if presets:
        lines += [
            "## Presets",
            "",
            "| environment | steps a seed | settings | where they come from |",
            "|---|---|---|---|",
        ]
        for preset in presets:
            ids = ", ".join(f"`{pattern}`" for pattern in preset.environment.split())
            lines.append(f"| {ids} | {preset.steps:,} | {preset.words} | {preset.source} |")
        lines.append("")
    return "\n".join(lines)


def wrapper_page(name: str, target: str) -> str:
    """One wrapper's page."""
    cls = registry.wrapper_class(name)
    lines = [f"# {name}", "", f"A wrapper, for any environment in JAX that it fits: `{target}`.", ""]
    lines += ["```text", inspect.cleandoc(cls.__doc__ or ""), "```", ""]
    lines += ["## Run it", "", f"```sh\n{COMMANDS[name]}\n```", ""]
    fields = registry.wrapper_fields(cls)
    if fields:
        words = ":".join([name, *(field.name.replace("_", "-").upper() for field in fields)])
        lines += ["## Options", "", f"`--wrap {words}`, or by name, as in `{name}:option=value`.", ""]
        lines += ["| option | default | |", "|---|---|---|"]
        for field in fields:
            default = "required" if field.required else f"`{field.default}`"
            lines.append(f"| `{field.name.replace('_', '-')}` | {default} | {field.help} |")
        lines.append("")
    return "\n".join(lines)


def pages() -> dict[Path, str]:
    """Every page and what it should hold."""
    result = {}
    index = ["# Parts", "", "One page each, written by `docs/make/parts.py` from the parts themselves.", ""]
    for port, table in registry.PORTS.items():
        index += [f"## {port}", ""]
        for name, target in table.items():
            result[PAGES / f"{name}.md"] = page(port, name, target)
            first = (registry.load(target).__doc__ or "").strip().splitlines()[0]
            index.append(f"- [{name}]({name}.md): {first}")
        index.append("")
    index += ["## wrappers", ""]
    for name, target in registry.WRAPPERS.items():
        result[PAGES / f"{name}.md"] = wrapper_page(name, target)
        first = (registry.wrapper_class(name).__doc__ or "").strip().splitlines()[0]
        index.append(f"- [{name}]({name}.md): {first}")
    index.append("")
    result[PAGES / "README.md"] = "\n".join(index)
    return result


def main() -> None:
    stale = [path for path, text in pages().items() if not path.exists() or path.read_text() != text]
    if "--check" in sys.argv:
        sys.exit(f"python docs/make/parts.py would change {', '.join(p.name for p in stale)}" if stale else 0)
    PAGES.mkdir(exist_ok=True)
    for path in stale:
        path.write_text(pages()[path])
    print(f"{len(stale)} pages written")


if __name__ == "__main__":
    main()
