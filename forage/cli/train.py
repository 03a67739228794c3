"""`forage train`: train an agent in an environment."""

from __future__ import annotations

from typing import Any

from forage.cli.arguments import display, environment_options, port_part, take_options
from forage.config import former, options, registry
from forage.config.options import PORTS
from forage.core.elsewhere import ABSENT_IN_TRAINING
from forage.core.errors import ForageError, nearest

HELP = f"""\
forage train [AGENT] ENVIRONMENT [OPTIONS]
forage train --config FILE [OPTIONS]
forage train --from RUN [[AGENT] ENVIRONMENT] [OPTIONS]

{options.help_lines()}  --quiet | --json | --plain   show nothing; one JSON object a line; lines
  --OPTION VALUE         any option of the agent (forage train AGENT --help)
  --env.OPTION VALUE     any field or option of the environment
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
    if agent is not None:
        registry.part_class("agent", agent)  # report an unknown name at once
    arguments: dict[str, Any] = {"display": display(words), **take_options(words)}
    arguments["environment_options"] = environment_options(words)
    for port in PORTS:
        part = port_part(port, words, base.get(port))
        if part is not None:
            arguments[port] = part
    if base:
        from forage.config.files import upon

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
        known = [options.hyphens(one) for one in (*(f.name for f in fields), *options.WORDS, "memory.capacity")]
        shown = options.hyphens(unknown)
        if unknown in ABSENT_IN_TRAINING:
            raise ForageError(f"forage train has no option '--{shown}': {ABSENT_IN_TRAINING[unknown]}")
        former.check_option(f"--{shown}", [f"--{one}" for one in known], name)
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
