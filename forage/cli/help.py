"""What `forage --help` and `forage COMMAND --help` print."""

HELP = """\
forage: reinforcement learning with one loop, seven ports and honest numbers

  forage train [AGENT] ENVIRONMENT   train; without an agent, one that suits
  forage resume RUN                  continue a run as if it had never stopped
  forage evaluate RUN                play fresh episodes and print the score with its interval;
                                     also with other numbers, wrappers and tasks (forage evaluate --help)
  forage watch RUN                   make a GIF or MP4 of the trained agent
  forage compare RUN RUN ...         one picture of all curves, and which is better
  forage tune AGENT ENVIRONMENT      search hyper-parameters, and judge the best on seeds that it has not seen
  forage report RUN ...              one HTML page about runs: curves, scores, profiles, settings, films
  forage claim [NAME]                run a paper's claim: does it hold here?
  forage ledger check ROW            measure a row of the ledger again: did anything get worse?
  forage list [KIND]                 agents, environments and the parts of every port
  forage show PART                   what a part is, its hyper-parameters and its source

Examples
  forage train CartPole-v1
  forage train ppo CartPole-v1 --steps 500k --seeds 5 --learning-rate 3e-4
  forage train dqn minatar:Breakout --memory prioritised --n-step 3
  forage train sac gymnasium:HalfCheetah-v5 --seeds 1

forage train --help lists the options of training; forage show ppo those of an agent.
"""

TRAIN_HELP = """\
forage train [AGENT] ENVIRONMENT [OPTIONS]

  --steps N              environment steps of each seed (500k, 5M, 1e6)
  --seeds N | a,b,c      how many seeds, or which; 5, and 3 on the host
  --directory PATH       where the run is kept; runs/AGENT-ENVIRONMENT-TIME
  --evaluation-episodes N   episodes of each seed that the score is made of
  --evaluation-every N      also evaluate every N steps of each seed, apart from training
  --evaluation-actions A    greedy, or sampled as in training; auto, what did better in episodes of their own
  --visits                  count where the agent goes on the environment's map, and when it is first paid
  --checkpoint-seconds S    how often to save
  --sweep NAME=a,b,c     train every value of a number of the agent, all in one program
  --extras tensorboard   also write the curve there
  --quiet | --json | --plain   show nothing; one JSON object a line; lines
  --learning-rate ...    any hyper-parameter of the agent (forage show AGENT)
  --env.NAME VALUE       any field or option of the environment
  --wrap NAME:VALUE      put a wrapper around the environment; again for one around that (forage list wrappers)
  --behaviour, --rewards, --memory, --tasks, --starts NAME   a part for that port (forage list)
  --memory.capacity ...  any option of such a part
"""

CLAIM_HELP = """\
forage claim [NAME] [OPTIONS]

Without a name: every claim, in a sentence. With one: its arms are trained, measured and judged by its rule; a claim
that was stopped goes on where it was.

  --scale laptop | smoke | paper   minutes to an hour on two cores; seconds; the paper's own setting
  --directory PATH       where its runs are kept; runs/claims/NAME-SCALE
  --anyway               start the paper's setting without an accelerator, too
  --quiet | --json | --plain   show nothing; one JSON object a line; lines
"""

TUNE_HELP = """\
forage tune AGENT ENVIRONMENT --over NAME=RANGE [--over ...] [OPTIONS]

  --over NAME=LOW:HIGH[:log]   a number of the agent, or of another part (memory.exponent); again for another
  --over NAME=A,B,C      one of these
  --method tpe | random | hyperband | pbt   how settings are proposed; pbt changes them while it trains
  --trials N             settings tried, or the size of the population; 32
  --batch N              trials at once, in one program where their shapes allow it; 8
  --tuning-seeds a,b,c   seeds that every trial trains on, but those of pbt; 0,1,2
  --seeds a,b,c          seeds that the best and the default are judged on; ten others
  --steps, --directory, --evaluation-actions, --wrap, --env.NAME, ports and the agent's options   as of forage train

The same call again, with the same --directory, goes on with a search that was stopped.
"""

LEDGER_HELP = """\
forage ledger [OPTIONS]               every row, with what was measured
forage ledger measure ROW ...         measure rows, and write their figures into the ledger
forage ledger check ROW ...           measure rows again: the exit code is 1 where something got worse

  --sample               also the rows that are cheap (a star)
  --file PATH            the ledger; benchmarks/ledger.json
  --quiet | --json       show nothing; one JSON object a row

What is learned is always judged; speed, compile time and memory where JAX and the hardware are those of the ledger.
"""

EVALUATE_HELP = """\
forage evaluate RUN [OPTIONS]

  --episodes N           episodes of each seed; 100
  --seed N               which episodes
  --actions A            greedy, or sampled as in training; auto chooses anew; otherwise as the run was told or chose
  --quiet | --json       show nothing; one JSON object
  --grid NAME=LOW:HIGH:N   set a field of the environment to each of N numbers; again for another, and all combinations
  --grid NAME=a,b,c      the same with these
  --under NAME:VALUE     also play with this wrapper around the environment; again for another (forage list wrappers)
  --wrap NAME:VALUE      play with this wrapper always
  --tasks NAME           other tasks than the run's own, with --tasks.OPTION as in training

With any of the last four the score of the run stays as it is, and what was found goes into robustness.json.
"""

COMMANDS_HELP = {
    "train": TRAIN_HELP,
    "evaluate": EVALUATE_HELP,
    "claim": CLAIM_HELP,
    "tune": TUNE_HELP,
    "ledger": LEDGER_HELP,
}
