"""`forage train`: train an agent in an environment."""

from __future__ import annotations

from typing import Any

from forage.cli.arguments import PORTS, display, port_part, seeds, wrappers
from forage.config import options, registry
from forage.core.elsewhere import ABSENT_IN_TRAINING
from forage.core.errors import ForageError, nearest

HELP = """\
forage train [AGENT] ENVIRONMENT [OPTIONS]
forage train --config FILE [OPTIONS]
forage train --from RUN [[AGENT] ENVIRONMENT] [OPTIONS]

  --steps N              environment steps of each seed (500k, 5M, 1e6); with --data, updates
  --config FILE          settings from a config.json, or a TOML or YAML file with the same keys; options override them
  --from RUN             start with that run's weights, and by default its agent, parts, steps and seeds
  --trust                use the maker's code and address named in RUN; they are shown and remembered
  --with-memory          start with its replay memory too; steps count on from there
  --data FILE            learn from a data set alone (forage data record, convert), without environment steps;
                         for both together: --memory mixed --memory.data FILE
  --seeds N | a,b,c      number of seeds, or a list of them (3, with its comma: seed 3 alone); default 5, on the host 3
  --directory PATH       directory of the run; default runs/AGENT-ENVIRONMENT-TIME
  --evaluation-episodes N   episodes of each seed for the score
  --evaluation-every N      also evaluate every N steps of each seed, without affecting training
  --stop-at SCORE           stop once an evaluation reaches this score; in a sweep, every setting
  --keep best               keep the agents of the best evaluation (forage evaluate RUN --checkpoint best)
  --keep-every N            keep the agents of every N steps
  --evaluation-actions auto | greedy | sampled   auto: the better of the two in separate episodes
  --opponent NAME           the player of the other seats in evaluation: random, perfect or a run's directory
  --devices N            number of devices of the run; default all accelerators, on the CPU one for each seed
  --workers N            processes of each seed that step environments on the host; --worker-threads N in each;
                         ray:N for actors of a Ray cluster; --first-come: workers do not wait for each other
  --ahead N              workers play whole rollouts with parameters N updates old; with 1 or more, during learning
  --step-timeout S       maximal seconds of a worker for one step; a slower one is replaced; default 600
  --hosts N --coordinator NAME:PORT   lead N - 1 other processes or machines that share the run (forage join)
  --visits                  count the visits to each cell of the environment's map, and the steps to the first reward
  --checkpoint-seconds S    seconds between checkpoints; default 30
  --sweep NAME=a,b,c     train every value of a number of the agent, all in one program
  --track wandb,csv      also write the numbers to trackers: tensorboard, wandb, mlflow, trackio, csv or file.py:Class
  --quiet | --json | --plain   show nothing; one JSON object a line; lines
  --OPTION VALUE         any option of the agent (forage train AGENT --help)
  --env.OPTION VALUE     any field or option of the environment
  --wrap NAME:VALUE      wrap the environment; repeat for further, outer wrappers (forage list wrappers)
  --behaviour, --rewards, --memory, --tasks, --starts NAME   the part of that port (forage list)
  --PORT.OPTION VALUE    any option of such a part, as in --memory.capacity 50k

forage train ppo --help lists the options of an agent; forage train ppo CartPole-v1 --help also those of the
environment and of the parts at the ports.

Examples
  forage train CartPole-v1
  forage train ppo CartPole-v1 --steps 500k --seeds 5 --learning-rate 3e-4
  forage train dqn minatar:Breakout --memory prioritised --memory.capacity 50k
  forage train ppo CartPole-v1 --sweep learning-rate=1e-4,1e-3 --env.cart-mass 2
"""


def explain(positional: list[str], words: options.Words) -> str:
    """Return the help about the agent and the environment that are named."""
    from forage.config.describing import training_help

    return training_help("train", positional, words)


def run(positional: list[str], words: options.Words) -> None:
    """Run `forage train`."""
    base, parent = base_arguments(words, *positional[-2:][::-1])
    if not positional and base and "environment" not in base:
        raise ForageError(f"{base['where']} names no environment; add one there, or after forage train.")
    if (not positional and not base) or len(positional) > 2:
        raise ForageError(
            "forage train takes an environment, or an agent and an environment: forage train CartPole-v1."
        )
    agent, environment = [None, None, *positional][-2:]
    if agent is None and environment is not None and registry.target_of("agent", environment):
        raise ForageError(
            f"{environment} is an agent; name an environment too: forage train {environment} CartPole-v1."
        )
    arguments: dict[str, Any] = {"wrap": wrappers(words, "wrap")}
    if agent is not None:
        registry.part_class("agent", agent)  # report an unknown name at once
    arguments["display"] = display(words)
    kinds = {
        "steps": int,
        "evaluation_episodes": int,
        "evaluation_every": int,
        "evaluation_actions": str,
        "opponent": str,
        "devices": int,
        "workers": str,
        "worker_threads": int,
        "ahead": int,
        "step_timeout": float,
        "hosts": int,
        "coordinator": str,
        "stop_at": float,
        "keep": str,
        "keep_every": int,
        "checkpoint_seconds": float,
        "directory": str,
    }
    for name, kind in kinds.items():
        if name in words:
            arguments[name] = options.parse(name, words.pop(name), kind)
    if "seeds" in words:
        arguments["seeds"] = seeds(words)
    if "data" in words:
        arguments["data"] = str(words.pop("data"))
    for flag in ("visits", "first_come"):
        if words.pop(flag, False):
            arguments[flag] = True
    for name in ("track", "extras"):  # the second is its old name
        if name in words:
            arguments[name] = options.parse(name, words.pop(name), tuple[str, ...])
    if "sweep" in words:
        name, _, values = str(words.pop("sweep")).partition("=")
        arguments["sweep"] = {name.replace("-", "_"): options.parse("sweep", values, tuple[float, ...])}
    environment_options = {w[4:]: options.guess(words.pop(w)) for w in list(words) if w.startswith("env.")}
    for port in PORTS:
        part = port_part(port, words, base.get(port))
        if part is not None:
            arguments[port] = part
    arguments["environment_options"] = environment_options
    if base:
        from forage.config.files import upon

        arguments["wrap"] = arguments["wrap"] or None
        arguments = upon(base.pop("where"), base, arguments | {"agent": agent, "environment": environment})
        agent, environment = arguments.pop("agent", None), arguments.pop("environment")

    if agent is None:
        from forage.config.defaults import suggest
        from forage.config.environment import environment_spec, resolve_environment

        name, made, _ = resolve_environment(
            environment, arguments.get("environment_options", {}), arguments.get("wrap", ())
        )
        agent, why = suggest(environment_spec(name, made), not callable(made))
        arguments["why"] = why
    name = agent if isinstance(agent, str) else registry.part_name(agent)
    fields = registry.fields(registry.part_class("agent", name))
    own = options.fill(words, fields, "", name)
    if words:
        unknown = next(iter(words))
        known = [f.name.replace("_", "-") for f in fields] + [
            "steps",
            "seeds",
            "directory",
            "evaluation-episodes",
            "evaluation-every",
            "evaluation-actions",
            "stop-at",
            "keep",
            "keep-every",
            "opponent",
            "devices",
            "workers",
            "worker-threads",
            "first-come",
            "ahead",
            "step-timeout",
            "hosts",
            "coordinator",
            "checkpoint-seconds",
            "config",
            "from",
            "with-memory",
            "sweep",
            "data",
            "visits",
            "track",
            "wrap",
            "quiet",
            "plain",
            "memory.capacity",
            *PORTS,
            "memory.capacity",
        ]
        shown = options.hyphens(unknown)
        if unknown in ABSENT_IN_TRAINING:
            raise ForageError(f"forage train has no option '--{shown}': {ABSENT_IN_TRAINING[unknown]}")
        raise ForageError(f"Neither forage train nor {name} has an option '--{shown}'{nearest(shown, known, '--')}")

    from forage.runs import training

    training.use_compilation_cache()
    if base and not isinstance(agent, str):
        from forage.config.files import with_options

        agent, own = with_options(agent, own), {}
    own = arguments.pop("agent_options", {}) | own
    training.train(agent, environment, agent_options=own, **parent, **arguments)


def base_arguments(
    words: options.Words, environment: str | None = None, agent: str | None = None
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the arguments in `--config FILE` or `--from RUN`, and those that name the parent run.

    The former have the name of their source as `where`.
    """
    file, run, with_memory = (words.pop(name, None) for name in ("config", "from", "with_memory"))
    if with_memory and run is None:
        raise ForageError("--with-memory takes over what another run has collected; name that run with --from RUN.")
    base: dict[str, Any] = {}
    parent: dict[str, Any] = {} if run is None else {"start_from": str(run), "with_memory": bool(with_memory)}
    if file is not None:
        from forage.config.files import read_arguments

        base = {"where": str(file), **read_arguments(str(file))}
    elif run is not None:
        from forage.runs.run import Run
        from forage.runs.starting import as_parent_unless_said

        base = {"where": str(run), **as_parent_unless_said(Run(str(run)), {"environment": environment, "agent": agent})}
    return base, parent
