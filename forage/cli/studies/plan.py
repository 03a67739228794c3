"""`forage plan`: predict a run's speed on other numbers of cores from measurements here."""

from __future__ import annotations

from forage.cli.arguments import environment_options, nothing_left, say
from forage.config import options, part_options, registry
from forage.core.errors import ForageError

HELP = """\
forage plan AGENT ENVIRONMENT [OPTIONS]
forage plan AGENT --data FILE [OPTIONS]

Measures the time of acting, stepping, messages to workers and learning for about ten seconds, or a few rollouts if
those take longer. From that it predicts the speed of a run on more cores or fewer, and how its time would be spent. If
environments are stepped on the host, each core has a worker, and the agent has at least one environment for each core;
a native environment is one program for each seed, and a run from data makes updates alone. Of a language model it says
first how much memory the run takes, and refuses one that does not fit, with options that would.

  --data FILE            data to learn from, such as rows of recorded text: updates a second, and no environment
  --cores a,b,c          numbers of cores; default 1,2,4,8,16,32,64
  --gpus N               GPUs that learn; only as many as there are here, as their time has to be measured
  --seeds N              number of seeds, in a native environment; default 1
  --mesh data:N,model:M  devices that share a language model: the memory of each of them, and no speed
  --OPTION VALUE         any option of the agent (forage train AGENT --help)
  --env.OPTION VALUE     any field or option of the environment
  --rewards a.py:f,...   functions that judge answers to prompts of a file
  --json                 print one JSON object instead

Examples
  forage plan ppo gymnasium:HalfCheetah-v5 --num-envs 16
  forage plan ppo my_env.py:Env --cores 1,100,10000
  forage plan sft --data pairs.jsonl --model my-model
"""


def run(positional: list[str], words: options.Words) -> None:
    """Run `forage plan`."""
    data = options.parse("data", words.pop("data"), str) if "data" in words else None
    if len(positional) != (2 if data is None else 1):
        raise ForageError(
            "forage plan takes an agent and an environment, as in forage plan ppo gymnasium:HalfCheetah-v5 --cores "
            "1,2,16, or an agent and data, as in forage plan sft --data pairs.jsonl."
        )
    agent, environment = positional[0], positional[1] if data is None else None
    fields = part_options.fields(registry.part_class("agent", agent))
    json = bool(words.pop("json", False))
    asked = options.parse("cores", words.pop("cores", "1,2,4,8,16,32,64"), tuple[int, ...])
    numbers = {name: options.parse(name, words.pop(name), int) for name in ("seeds", "gpus") if name in words}
    mesh = options.parse("mesh", words.pop("mesh"), str) if "mesh" in words else None
    of_environment = environment_options(words)
    if "rewards" in words:
        of_environment["rewards"] = str(words.pop("rewards")).split(",")
    if data is not None and of_environment:
        raise ForageError("A run from data is planned without an environment; leave out --env options and --rewards.")
    agent_options = options.fill(words, fields, "", agent)
    known = ["cores", "data", "gpus", "mesh", "rewards", "seeds", "json", *(field.name for field in fields)]
    nothing_left(words, "plan", known)
    from forage.runs.training import use_compilation_cache
    from forage.studies.plan import check_gpus, memory_line, memory_of, plan, plan_lines

    use_compilation_cache()
    check_gpus(numbers.pop("gpus", None))
    memory = memory_of(agent, environment, agent_options, of_environment, mesh=mesh, data=data, **numbers)
    if memory and not json:
        print(memory_line(memory, mesh), flush=True)
    found = [] if mesh else plan(agent, environment, list(asked), agent_options, of_environment, data=data, **numbers)
    if json:
        say({"event": "plan", "predicted": [one._asdict() for one in found], **({"memory": memory} if memory else {})})
    elif found:
        print(*plan_lines(found, "steps" if data is None else "updates"), sep="\n")
