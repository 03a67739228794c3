"""`forage plan`: say how fast a run would be on so many cores, from pieces that are measured here."""

from __future__ import annotations

from forage.cli.arguments import nothing_left, say
from forage.config import options, registry
from forage.core.errors import ForageError

HELP = """\
forage plan AGENT ENVIRONMENT [OPTIONS]

Measures for some ten seconds, or for a few rollouts where those take longer, what acting, stepping, messages to workers
and learning take here, and draws from that how fast a run would be on more cores or fewer, and what its time would go
to. Where environments are stepped on the host, each core steps in a worker, and the agent has an environment for each
core at least; a native environment is one program for each seed.

  --cores a,b,c          numbers of cores; 1,2,4,8,16,32,64
  --gpus N               GPUs that learn; as many as are here, as what one takes has to be measured on it
  --seeds N              how many seeds, in a native environment; 1
  --OPTION VALUE         any option of the agent (forage train AGENT --help)
  --env.OPTION VALUE     any field or option of the environment
  --json                 print one JSON object instead

Examples
  forage plan ppo gymnasium:HalfCheetah-v5 --num-envs 16
  forage plan ppo my_env.py:Env --cores 1,100,10000
"""


def run(positional: list[str], words: options.Words) -> None:
    """Do what the words after `forage plan` ask for."""
    if len(positional) != 2:
        raise ForageError(
            "forage plan takes an agent and an environment: forage plan ppo gymnasium:HalfCheetah-v5 --cores 1,2,16."
        )
    agent, environment = positional
    fields = registry.fields(registry.part_class("agent", agent))
    json = bool(words.pop("json", False))
    asked = options.parse("cores", words.pop("cores", "1,2,4,8,16,32,64"), tuple[int, ...])
    numbers = {name: options.parse(name, words.pop(name), int) for name in ("seeds", "gpus") if name in words}
    environment_options = {w[4:]: options.guess(words.pop(w)) for w in list(words) if w.startswith("env.")}
    agent_options = options.fill(words, fields, "", agent)
    nothing_left(words, "plan", ["cores", "gpus", "seeds", "json", *(field.name for field in fields)])
    from forage.runs.training import use_compilation_cache
    from forage.studies.plan import check_gpus, lines, plan

    use_compilation_cache()
    check_gpus(numbers.pop("gpus", None))
    found = plan(agent, environment, list(asked), agent_options, environment_options, **numbers)
    if json:
        say({"event": "plan", "predicted": [one._asdict() for one in found]})
    else:
        print(*lines(found), sep="\n")
