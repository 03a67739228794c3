"""Bad input is answered in one sentence with a remedy; a run never loses its learned state."""

import json
import re
import shutil

import jax
import numpy as np
import pytest
import small
from tiers import gate_cases

import forage
from forage.core import checkpoint
from forage.core.types import ForageError
from forage.memory.rollout import LastRollout
from forage.rewards.bonuses.rnd import RND
from forage.runs import training
from forage.runs.display import Progress
from forage.runs.run import Run

small.keep_compiled()

# What is typed, and what the answer must say.
COMMANDS: list[tuple[str, str]] = [
    ("trane ppo CartPole-v1", "Unknown command 'trane'. Did you mean 'train'"),
    ("train", "takes an environment, or an agent and an environment"),
    ("train a b c", "takes an environment, or an agent and an environment"),
    ("train ppo", "ppo is an agent; name an environment too"),
    ("train ppoo CartPole-v1", "Unknown agent 'ppoo'. Did you mean 'ppo'"),
    ("train nowhere.at:all CartPole-v1", "There is no module nowhere here"),
    ("train forage.agents.policy_gradient.ppo:Nope CartPole-v1", "forage.agents.policy_gradient.ppo has no class Nope"),
    (
        "train forage.core.types:Spec CartPole-v1",
        "forage.core.types:Spec is not of the port agent; a subclass of forage.core.ports.Agent works",
    ),
    ("train ppo CartPoel-v1", "Unknown environment 'CartPoel-v1'. Did you mean 'CartPole-v1'"),
    ("train ppo gymnasium:HalfCheeta-v5", "Did you mean 'gymnasium:HalfCheetah-v5'"),
    ("train ppo nowhere.py:Env", "There is no file"),
    ("train ppo nowhere:Env", "There is no module nowhere"),
    ("train ppo forage.core.types:Spec", "is not an environment"),
    ("train ppo CartPole-v1 --lerning-rate 1", "has an option '--lerning-rate'. Did you mean '--learning-rate'"),
    ("train ppo CartPole-v1 --steps", "--steps needs a value"),
    (
        "train ppo CartPole-v1 -s 1000",
        "'-s'. Did you mean '--steps' or '--save-config' or '--seeds' or '--stop-at' or '--step-timeout'",
    ),
    ("train ppo CartPole-v1 -q", "Unknown option '-q'. Did you mean '--quiet'"),
    ("resume run -x", "Unknown option '-x'. Options begin with two hyphens; --help lists them"),
    ("train ppo CartPole-v1 --lr 1e-3", "option '--lr'. Did you mean '--learning-rate'"),
    ("train ppo CartPole-v1 --gamma 0.9", "option '--gamma'. Did you mean '--discount'"),
    ("train ppo CartPole-v1 --n-steps 64", "option '--n-steps'. Did you mean '--rollout-length'"),
    ("train ppo CartPole-v1 --ent_coef 0", "option '--ent-coef'. Did you mean '--entropy-coefficient'"),
    ("train ppo CartPole-v1 --total_timesteps 500k", "option '--total-timesteps'. Did you mean '--steps'"),
    ("train dqn CartPole-v1 --buffer-size 5k", "option '--buffer-size'. Did you mean '--memory.capacity'"),
    ("train ppo CartPole-v1 --rewards rdn", "Unknown rewards part 'rdn'. Did you mean 'rnd'"),
    (
        "train ppo CartPole-v1 --rewards rnd --rewards.final_wieght 0",
        "option 'final-wieght'. Did you mean 'final-weight'",
    ),
    ("train ppo CartPole-v1 --track wandbb", "Unknown tracker 'wandbb'"),
    ("train ppo CartPole-v1 --steps many", "--steps is a whole number such as 500k, not 'many'"),
    ("train ppo CartPole-v1 --steps inf", "--steps is a whole number"),
    ("train ppo CartPole-v1 --steps nan", "--steps is a whole number"),
    ("train ppo CartPole-v1 --steps 1.5", "--steps is a whole number"),
    ("resume run --quiet --json", "--quiet and --json are two ways"),
    ("train ppo CartPole-v1 --plain --json", "--json and --plain are two ways"),
    ("tune ppo CartPole-v1 --over clip=0.1,0.2 --evaluation-actions best", "greedy or sampled, not 'best'"),
    ("train ppo CartPole-v1 --steps 2147483647", "from 1 to 2,147,482,624"),
    ("train dqn CartPole-v1 --steps 2b --memory uniform --memory.capacity 2b", "of memory, and .* are free"),
    ("train ppo CartPole-v1 --steps 0", "steps of each seed, not 0"),
    ("train ppo CartPole-v1 --steps -5", "steps of each seed, not -5"),
    ("train ppo CartPole-v1 --steps 5B", "not 5,000,000,000"),
    (
        "train dqn CartPole-v1 --steps 500",
        r"dqn begins to learn after 1,000 steps \(learning_starts\), and this run has 500; take more steps",
    ),
    ("train dqn minatar:Breakout --hidden-sizes 256,256", "hidden_sizes has no effect on dqn in minatar:Breakout"),
    ("train ppo CartPole-v1 --steps 5 --steps 6", "--steps is given twice"),
    ("train ppo CartPole-v1 --seeds 0", "one or more different whole numbers"),
    ("train ppo CartPole-v1 --seeds 1,1", "one or more different whole numbers"),
    ("train ppo CartPole-v1 --seeds many", "--seeds is how many, such as 5, or which, such as 0,1,2"),
    ("select nope.csv --baseline 0", "There is no table nope.csv"),
    ("data show .", ". is a folder; name one file"),
    ("train ppo CartPole-v1 --seeds -1,2", "one or more different whole numbers"),
    ("train ppo CartPole-v1 --seeds 99999999999,2", "one or more different whole numbers"),
    ("train ppo CartPole-v1 --learning-rate fast", "--learning-rate is a number, not 'fast'"),
    ("train ppo CartPole-v1 --learning-rate nan", "learning-rate of ppo is 0 or more, not nan"),
    ("train ppo CartPole-v1 --learning-rate -1", "learning-rate of ppo is 0 or more, not -1"),
    ("train ppo CartPole-v1 --discount 1.5", "discount of ppo is from 0 to 1, not 1.5"),
    ("train ppo CartPole-v1 --max-gradient-norm 0", "max-gradient-norm of ppo is above 0, not 0"),
    ("train ppo CartPole-v1 --bonus-discount 1.5", "bonus-discount of ppo is from 0 to 1, not 1.5"),
    (
        "train ppo CartPole-v1 --rewards rnd --rewards.norm-discount 1",
        "norm-discount of rnd is from 0 to below 1, not 1",
    ),
    ("train ppo CartPole-v1 --rewards rnd --rewards.final-weight=-1", "final-weight of rnd is 0 or more, not -1"),
    (
        "train ppo CartPole-v1 --rewards rnd --rewards.schedule exponential --rewards.final-weight 0",
        "No weight falls to 0 exponentially: .* small final_weight such as 0.001, or the schedule linear",
    ),
    (
        "train ppo CartPole-v1 --rewards normalise-return --rewards.limit 0",
        "limit of normalise-return is above 0, not 0",
    ),
    ("train sac Pendulum-v1 --initial-temperature 0", "initial-temperature of sac is above 0, not 0"),
    ("train sac Pendulum-v1 --sweep initial-temperature=0,1", "initial-temperature of sac is above 0, not 0"),
    ("train td3 Pendulum-v1 --target-noise-clip=-1", "target-noise-clip of td3 is 0 or more, not -1"),
    (
        "train dqn CartPole-v1 --memory prioritised --memory.priority-exponent=-1",
        "priority-exponent of prioritised is 0 or more, not -1",
    ),
    (
        "train dqn CartPole-v1 --memory prioritised --memory.importance-exponent=-1",
        "importance-exponent of prioritised is 0 or more, not -1",
    ),
    ("train ppo CartPole-v1 --num-envs 0", "num-envs of ppo is 1 or more, not 0"),
    ("train ppo CartPole-v1 --rollout-length -8", "rollout-length of ppo is 1 or more"),
    ("train sac Pendulum-v1 --updates-per-rollout 0", "updates-per-rollout of sac is 1 or more, not 0"),
    ("train td3 Pendulum-v1 --policy-delay 0", "policy-delay of td3 is 1 or more, not 0"),
    ("train dqn CartPole-v1 --n-step 0", "n-step of dqn is 1 or more, not 0"),
    ("train dqn CartPole-v1 --unroll 0", "unroll of dqn is 1 or more, not 0"),
    ("train dqn CartPole-v1 --burn-in=-1", "burn-in of dqn is 0 or more, not -1"),
    ("train dqn CartPole-v1 --target-update-interval 0", "target-update-interval of dqn is 1 or more, not 0"),
    ("train ppo CartPole-v1 --hidden-sizes 8,0", "hidden-sizes of ppo is 1 or more, not 0"),
    ("train ppo CartPole-v1 --minibatches 7", "cannot cut .* into 7 equal minibatches"),
    ("train ppo CartPole-v1 --clip-value maybe", "--clip-value is true or false, not 'maybe'"),
    ("train ppo CartPole-v1 --evaluation-episodes 0", "1 evaluation episode or more, not 0"),
    ("train ppo CartPole-v1 --checkpoint-seconds -1", "0 or more, not -1"),
    ("train ppo CartPole-v1 --sweep learning-rate", "A sweep takes one or more different values"),
    ("train ppo CartPole-v1 --sweep learning-rate=1,a", "--sweep is one or more numbers .* such as .*, not '1,a'"),
    ("train ppo CartPole-v1 --sweep learning-rate=-1,1", "learning-rate of ppo is 0 or more"),
    ("train ppo CartPole-v1 --sweep lerning-rate=1,2", "Did you mean 'learning_rate'"),
    ("train ppo CartPole-v1 --sweep num-envs=1,2", "A sweep is over a number of the agent, not 'num_envs'"),
    ("train ppo CartPole-v1 --track tensorbord", "Unknown tracker 'tensorbord'. Available: tensorboard, wandb, "),
    ("train ppo CartPole-v1 --track wandb2", "Unknown tracker 'wandb2'. Available: tensorboard, wandb, "),
    ("train ppo CartPole-v1 --lr 1e-3", "forage train nor ppo has an option '--lr'. Did you mean '--learning-rate'"),
    ("train ppo CartPole-v1 --gamma 0.9", "'--gamma'. Did you mean '--discount'"),
    ("train ppo CartPole-v1 --n_steps 128", "'--n-steps'. Did you mean '--rollout-length'"),
    ("train dqn CartPole-v1 --n-steps 3", "'--n-steps'. Did you mean '--rollout-length' or '--n-step'"),
    ("train ppo CartPole-v1 --ent-coef 0.1", "'--ent-coef'. Did you mean '--entropy-coefficient'"),
    ("train ppo CartPole-v1 --total-timesteps 10k", "'--total-timesteps'. Did you mean '--steps'"),
    ("train ppo CartPole-v1 --n-envs 8", "'--n-envs'. Did you mean '--num-envs'"),
    ("train ppo CartPole-v1 --verbose 1", "'--verbose'. Did you mean '--quiet' or '--plain'"),
    ("train dqn CartPole-v1 --buffer-size 10k", "'--buffer-size'. Did you mean '--memory.capacity' or '--memory'"),
    ("train ppo CartPole-v1 --seed 3", "'--seed'. Did you mean '--seeds'"),
    ("tune ppo CartPole-v1 --over clip=0.1,0.2 --total-timesteps 10k", "'--total-timesteps'. Did you mean '--steps'"),
    ("train ppo CartPole-v1 --memory uniferm", "Unknown memory part 'uniferm'. Did you mean 'uniform'"),
    ("train ppo CartPole-v1 --memory.capacity 5", "needs --memory NAME too"),
    (
        "train dqn CartPole-v1 --memory uniform --memory.capacty 5",
        "uniform has no option 'capacty'. Did you mean 'capacity'",
    ),
    ("train dqn CartPole-v1 --memory uniform --memory.capacity 0", "capacity of uniform is 1 or more, not 0"),
    ("train ppo CartPole-v1 --memory uniform", "PPO learns only from the rollout .* UniformReplay .* --memory rollout"),
    ("train sac Pendulum-v1 --memory rollout", "SAC learns from batches .* LastRollout .* --memory uniform"),
    ("train ppo CartPole-v1 --tasks contexts", "contexts needs --tasks.train VALUE"),
    ("train ppo CartPole-v1 --tasks contexts --tasks.train lenght=1", "no field 'lenght'. Did you mean 'length'"),
    ("train ppo CartPole-v1 --tasks contexts --tasks.train length=2:1", "low <= high for length; got 2.0 and 1.0"),
    ("train ppo CartPole-v1 --tasks contexts --tasks.train length=unifrom:1:2", "Did you mean 'uniform'"),
    (
        "train ppo CartPole-v1 --tasks contexts --tasks.train length=normal:1",
        "normal is written length=normal:MEAN:STD",
    ),
    ("train ppo CartPole-v1 --tasks contexts --tasks.train length", "a field and its values, as in length=0.25:1.0"),
    ("train ppo CartPole-v1 --wrap frame-stak:4", "Unknown wrapper 'frame-stak'. Did you mean 'frame-stack'"),
    ("train ppo CartPole-v1 --wrap zzz", "Unknown wrapper 'zzz'; forage list wrappers shows them"),
    ("train ppo CartPole-v1 --wrap", "--wrap needs a value"),
    ("train ppo CartPole-v1 --wrap time-limit", "time-limit needs limit, as in --wrap time-limit:VALUE"),
    ("train ppo CartPole-v1 --wrap time-limit:long", "--wrap time-limit:limit is a whole number"),
    ("train ppo CartPole-v1 --wrap frame-stack:4:5", "frame-stack has 1 option, and frame-stack:4:5 gives 2"),
    ("train ppo CartPole-v1 --wrap delay:1:action-delay=2", "gives action-delay twice"),
    ("train ppo CartPole-v1 --wrap delay:delay=3", "delay has no option 'delay'. Did you mean 'action-delay'"),
    ("train ppo CartPole-v1 --wrap action-noise:2", "action_noise is a probability, from 0 to 1, not 2"),
    ("train ppo CartPole-v1 --wrap grey", "Grey needs a Box observation with 3 axes; CartPole has"),
    ("train ppo CartPole-v1 --wrap drift:gravty", "no field 'gravty'. Did you mean 'gravity'"),
    ("train ppo gymnasium:CartPole-v1 --wrap noisy-tv:4:1", "goes around native environments such as CartPole-v1; aro"),
    ("train ppo gymnasium:CartPole-v1 --wrap time-limit:0", "limit is 1 or more, not 0"),
    ("train ppo gymnasium:CartPole-v1 --wrap grey", "grey needs observations in one box of numbers with 3 axes"),
    ("show frame-stak", "Unknown part or environment 'frame-stak'. Did you mean 'frame-stack'"),
    ("check", "takes one environment: forage check my_env.py:Env"),
    ("check CartPole-v9", "Unknown environment 'CartPole-v9'. Did you mean"),
    ("check CartPole-v1 --step 5", "no option '--step'. Did you mean '--steps'"),
    ("check CartPole-v1 --steps many", "--steps"),
    ("check CartPole-v1 --steps 0", "plays 1 step or more, not 0"),
    ("check CartPole-v1 --env.gravty 3", "no option 'gravty'. Did you mean 'gravity'"),
    ("check CartPole-v1 --wrap zzz", "Unknown wrapper 'zzz'"),
    ("list wraps", "Unknown kind 'wraps'. Did you mean 'wrappers'"),
    (
        "train ppo CartPole-v1 --behaviour policy --behaviour.random-steps 9",
        "PPO learns only from actions that it chose itself, and the first random_steps are not; leave random_steps out",
    ),
    ("train ppo CartPole-v1 --env.gravty 3", "CartPole-v1 has no option 'gravty'. Did you mean 'gravity'"),
    ("train ppo CartPole-v1 --env.length -1", "length of CartPole-v1 is above 0, not -1"),
    ("tune ppo CartPole-v1 --over clip=0.1,0.2 --seeds 0", "Seeds are one or more different whole numbers"),
    ("train sac CartPole-v1", "continuous.*Discrete"),
    ("train dqn Pendulum-v1", "Pendulum-v1"),
    ("train ppo gymnasium:CartPole-v1 --starts levels", "need a native environment"),
    ("train rewards CartPole-v1", "Unknown agent 'rewards'"),
    ("resume", "takes one run's directory"),
    ("resume nowhere", "nowhere is not a run: it has no config.json"),
    ("resume nowhere --anywey", "--anywey|needs a value"),
    ("evaluate nowhere", "nowhere is not a run"),
    ("evaluate nowhere --episodes 0", "1 evaluation episode or more|is not a run"),
    ("watch nowhere", "nowhere is not a run"),
    ("claim one two", "takes one claim"),
    ("compare one", "takes two runs or more"),
    ("compare one two", "one is not a run"),
    ("list pumpkins", "Unknown kind 'pumpkins'. Available: agents"),
    ("list agents rewards", "takes one kind"),
    ("list --whole true", "no option '--whole'. Available: --all"),
    ("train pop --help", "Unknown agent 'pop'|Unknown environment 'pop'"),
    ("train ppo CartPoel-v1 --help", "Unknown environment 'CartPoel-v1'. Did you mean 'CartPole-v1'"),
    ("train ppo CartPole-v1 --rewards rdn --help", "Unknown rewards part 'rdn'. Did you mean 'rnd'"),
    ("tune ppoo CartPole-v1 --help", "Unknown agent 'ppoo'. Did you mean 'ppo'"),
    ("completion", "takes one shell, bash, zsh or fish"),
    ("completion bahs", "Unknown shell 'bahs'. Did you mean 'bash'"),
    ("completion bash zsh", "takes one shell, bash, zsh or fish"),
    ("completion bash --lnie x", "no option '--lnie'. Did you mean '--line'"),
    ("completion --line", "--line needs a value"),
    ("show", "takes the name of a part or an environment"),
    ("show nothing-like-this", "Unknown part or environment 'nothing-like-this'; forage list shows all"),
    ("show ppoo", "Unknown part or environment 'ppoo'. Did you mean 'ppo'"),
]


@pytest.mark.parametrize(("words", "said"), COMMANDS, ids=[words for words, _ in COMMANDS])
def test_one_sentence_and_code_2(words, said, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code, out, err = small.run_command(capsys, *words.split())
    assert (code, out) == (2, "")
    assert err.count("\n") == 1
    assert err.rstrip().endswith((".", "?"))
    assert re.search(said, err), err
    assert list(tmp_path.iterdir()) == []  # nothing was begun


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"agent": 5}, "An agent is a forage.core.ports.Agent or its name"),
        ({"environment": 5}, "not a int"),
        (
            {"lerning_rate": 1e-3},
            "Neither forage.train nor ppo has an option 'lerning_rate'. Did you mean 'learning_rate'",
        ),
        ({"learning_rate": "fast"}, "learning_rate of ppo is a number, not 'fast'"),
        ({"learning_rate": 1e-3, "agent_options": {"learning_rate": 1e-4}}, "learning_rate is given twice"),
        (
            {"agent": forage.PPO(), "clip": 0.1},
            r"An agent that is an object has its own clip; say it there: PPO\(clip=\.\.\.\)",
        ),
        ({"gravity": 9.0}, r"'gravity' is no option of ppo; say environment_options={'gravity': \.\.\.}"),
        ({"rewards": RND(), "weight": 9.0}, r"'weight' is no option of ppo; say rewards=RND\(weight=\.\.\.\)"),
        (
            {"rewards": RND(), "learning_rate": 9.0},
            r"ppo has an option 'learning_rate', and so has something else; say agent_options={'learning_rate': "
            r"\.\.\.} or rewards=RND\(learning_rate=\.\.\.\)",
        ),
        ({"memories": "uniform"}, "'memories'. Did you mean 'memory'"),
        ({"lr": 1e-3}, "'lr'. Did you mean 'learning_rate'"),
        ({"total_timesteps": 1000}, "'total_timesteps'. Did you mean 'steps'"),
        ({"ent_coef": 0.1}, "'ent_coef'. Did you mean 'entropy_coefficient'"),
        ({"verbose": 1}, "'verbose'. Did you mean 'display'"),
        ({"tensorboard_log": "logs"}, "'tensorboard_log'. Did you mean 'track'"),
        (
            {"agent": None, "environment": None, "env": "CartPole-v1"},
            "forage.train has no option 'env'. Did you mean 'environment'",
        ),
        ({"steps": "many"}, "steps is a whole number such as 500_000 or '500k', not 'many'"),
        ({"steps": 1.5}, "steps is a whole number such as 500_000 or '500k', not 1.5"),
        ({"evaluation_every": "often"}, "evaluation_every is a whole number"),
        ({"track": "wandb2"}, "Unknown tracker 'wandb2'. Available: tensorboard, wandb, "),
        ({"memory": 5}, "memory takes a forage.core.ports.Memory or its name, not a int"),
        ({"rewards": LastRollout()}, "rewards takes a forage.core.ports.Rewards or its name, not a LastRollout"),
        ({"memory": "uniferm"}, "Did you mean 'uniform'"),
        ({"agent_options": {"lerning_rate": 1.0}}, "ppo has no option 'lerning_rate'. Did you mean 'learning_rate'"),
        ({"agent_options": {"learning_rate": "fast"}}, "learning_rate of ppo is a number, not 'fast'"),
        ({"display": "loud"}, "A display is auto"),
        ({"seeds": []}, "Seeds are one or more"),
        ({"environment_options": {"gravty": 1}}, "no option 'gravty'. Did you mean 'gravity'"),
    ],
)
def test_from_python(arguments, said, tmp_path):
    with pytest.raises(ForageError, match=said):
        forage.train(**({"agent": "ppo", "environment": "CartPole-v1", "directory": tmp_path / "run"} | arguments))
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("environment", ["CartPole-v1", "gymnasium:CartPole-v1"])
@pytest.mark.parametrize(("everywhere", "here"), [(True, True), (True, False), (False, True)])
def test_64_bits_are_refused_before_anybody_is_blamed(environment, everywhere, here, tmp_path, capsys):
    """This holds for settings of this thread alone too, with or without 64 bits: programs compile in another."""
    said = "32 bits, and JAX is set to 64 here; unset JAX_ENABLE_X64, or in Python call jax.config.update"
    jax.config.update("jax_enable_x64", everywhere)
    try:
        with jax.enable_x64(here):
            with pytest.raises(ForageError, match=said):
                forage.train("ppo", environment, directory=tmp_path / "run")
            with pytest.raises(ForageError, match=said):
                forage.load(tmp_path)
            code, out, err = small.run_command(capsys, "train", environment)
    finally:
        jax.config.update("jax_enable_x64", False)
    assert (code, out, err.count("\n")) == (2, "", 1) and said in err
    assert list(tmp_path.iterdir()) == []


@pytest.fixture(scope="module")
def whole_run(tmp_path_factory):
    return small.train(tmp_path_factory.mktemp("runs") / "finished").directory


@pytest.fixture
def copy(whole_run, tmp_path):
    shutil.copytree(whole_run, tmp_path / "copy")
    return tmp_path / "copy"


def edit(path, **changes):
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def test_a_directory_that_is_a_run(copy):
    with pytest.raises(ForageError, match="already holds a run; forage resume"):
        small.train(copy)


def test_other_versions_are_named_and_anyway_goes_on(copy):
    edit(copy / "versions.json", jax="0.0.1", code="other")
    with pytest.raises(ForageError, match=r"jax 0\.0\.1 \(here .*other code of forage.*--anyway"):
        training.resume(copy, display="quiet")
    training.resume(copy, display="quiet", anyway=True)


def test_the_devices_that_are_there_are_taken_and_named(copy):
    """Of the seven that it began on there are four here, one for each of its four members."""
    edit(copy / "config.json", devices=7)
    shown: list[str] = []
    display = Progress()
    display.start = lambda title, lines, total: shown.extend(lines)  # type: ignore[method-assign]
    run = training.resume(copy, display=display)
    (said,) = [line for line in shown if "devices" in line and "begun on" in line]
    assert said == "begun on 7 devices, and goes on with 4 here: sums may round otherwise"
    assert run.history[-1]["versions"] == "7 devices (here 4)"


def test_a_checkpoint_of_other_sizes_or_a_foreign_file(copy):
    config = json.loads((copy / "config.json").read_text())
    edit(copy / "config.json", agent=config["agent"] | {"hidden_sizes": [16]})
    with pytest.raises(ForageError, match="was written with other sizes"):
        training.resume(copy, display="quiet")
    (copy / "config.json").write_text(json.dumps(config))
    for path in Run(copy).checkpoints:
        np.savez(path, a=np.zeros(3))
    with pytest.raises(ForageError, match="not a whole Forage checkpoint"):
        training.resume(copy, display="quiet")


@pytest.mark.parametrize("name", ["config.json", "versions.json", "evaluation.json"])
def test_a_damaged_json_file(copy, name):
    (copy / name).write_text('{"a": ')
    with pytest.raises(ForageError, match=f"{name} cannot be read"):
        run = Run(copy)
        _ = run.evaluation
        training.resume(copy, display="quiet")


def test_a_missing_versions_file(copy):
    (copy / "versions.json").unlink()
    with pytest.raises(ForageError, match=r"not a whole run: it has no versions\.json"):
        training.resume(copy, display="quiet")


def test_a_place_that_cannot_be_made(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(ForageError, match="Could not make"):
        small.train(tmp_path / "file" / "run")


def test_a_learning_rate_that_ruins_the_agent(tmp_path):
    """The error names the steps in between; the last checkpoint is there and whole."""
    with pytest.raises(
        ForageError, match=r"parameters became \w+ between steps \d+ and \d+ with seed 3, in \w+\..*kept as of"
    ):
        small.train(tmp_path / "run", agent_options={"learning_rate": 1e38}, steps=3200)
    policy = forage.load(tmp_path / "run")
    assert np.isfinite(policy.state.network.actor.weight).all()
    policy.act(np.zeros(4))


OWN = """
import os
import gymnasium, jax, jax.numpy as jnp, numpy as np
from forage.environments.classic.cartpole import CartPole
from forage.core.types import Step


class Walk(gymnasium.Env):
    observation_space = gymnasium.spaces.Box(-1, 1, (3,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)
    wrong = staticmethod(lambda observation: (observation, 1.0))

    def reset(self, seed=None, options=None):
        super().reset(seed=seed)
        self.time = 0
        return np.zeros(3, np.float32), {}

    def step(self, action):
        self.time += 1
        observation, reward = np.zeros(3, np.float32), 1.0
        if self.time == 20:
            observation, reward = self.wrong(observation)
        return observation, reward, self.time == 30, False, {}


def broken(observation):
    raise RuntimeError("the rope broke")


class Raises(Walk):
    wrong = staticmethod(broken)

class Nan(Walk):
    wrong = staticmethod(lambda observation: (observation * np.nan, 1.0))

class NanReward(Walk):
    wrong = staticmethod(lambda observation: (observation, float("nan")))

class Shape(Walk):
    wrong = staticmethod(lambda observation: (np.zeros(4, np.float32), 1.0))

class RaisesInReset(Walk):
    def reset(self, seed=None, options=None):
        broken(0)


class Late(Walk):
    # The second seed's breaks: the first one made is only looked at, and the next two are the first seed's.

    made = 0

    def __init__(self):
        Late.made += 1
        self.number = Late.made

    def step(self, action):
        if os.environ["ROPE"] == "thin" and self.number > 3 and self.time == 19:
            broken(0)
        return super().step(action)


class NativeNan(CartPole):
    def step(self, state, action, key):
        state, step = super().step(state, action, key)
        return state, step._replace(reward=jnp.where(state.time == 7, jnp.nan, 1.0))

class NativeCalls(CartPole):
    def step(self, state, action, key):
        def host(time):
            if time == 7:
                raise RuntimeError("the rope broke")
            return np.float32(1)
        state, step = super().step(state, action, key)
        reward = jax.pure_callback(host, jax.ShapeDtypeStruct((), "float32"), state.time, vmap_method="sequential")
        return state, step._replace(reward=reward)

class NativeShape(CartPole):
    def step(self, state, action, key):
        state, step = super().step(state, action, key)
        return state, step._replace(observation=jnp.zeros(5))

class NativeReset(CartPole):
    def reset(self, key):
        return super().reset(key)[1]

class NativeReward(CartPole):
    def step(self, state, action, key):
        state, step = super().step(state, action, key)
        return state, step._replace(reward=jnp.ones(3))

class NativeState(CartPole):
    def step(self, state, action, key):
        state, step = super().step(state, action, key)
        return state._replace(time=state.time * 1.0), step

class NativeTuple(CartPole):
    def step(self, state, action, key):
        state, step = super().step(state, action, key)
        return state, tuple(step)

class NativeRaises(CartPole):
    def step(self, state, action, key):
        if state.time > 5:
            raise RuntimeError("the rope broke")
        return super().step(state, action, key)
"""


@pytest.fixture(scope="module")
def own(tmp_path_factory):
    """A file with a user's environments, each wrong in its own way."""
    path = tmp_path_factory.mktemp("own") / "environments.py"
    path.write_text(OWN)
    return path


FAILURES = [
    ("Raises", r"failed at step 20 .*RuntimeError: the rope broke"),
    ("Nan", "NaN as observation at step 20"),
    ("NanReward", "NaN as reward at step 20"),
    ("Shape", "at step 20"),
    ("NativeNan", r"returned NaN as reward at step 14 in environment 0 with seed 3"),
    ("NativeCalls", r"A compiled part of the loop failed after step \d+: .*the rope broke"),
]


@pytest.mark.parametrize(("name", "said"), gate_cases(FAILURES, FAILURES[:1]))
def test_an_environment_that_fails_in_the_middle(own, tmp_path, name, said):
    """The step is named, the run is saved, and its learned state can be loaded."""
    with pytest.raises(ForageError, match=said) as caught:
        small.train(tmp_path / "run", environment=f"{own}:{name}", seeds=[3], steps=3200)
    assert "\n" not in str(caught.value)
    saved = int(Run(tmp_path / "run").checkpoints[-1].stem)
    assert f"The run is kept as of step {saved:,} in {tmp_path / 'run'}." in str(caught.value)
    if not name.startswith("Native"):
        assert saved == 32  # steps 1 to 16 of two environments were learned from
    policy = forage.load(tmp_path / "run")
    policy.act(np.zeros(policy.spec.observation_space.shape))


AT_ONCE = """
import gymnasium, numpy as np

class Breaks(gymnasium.Env):
    observation_space = gymnasium.spaces.Box(-1, 1, (3,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)

    def reset(self, seed=None, options=None):
        return np.zeros(3, np.float32), {}

    def step(self, action):
        raise RuntimeError("the rope broke")
"""


def test_a_failed_start_leaves_no_directory(tmp_path):
    (tmp_path / "at_once.py").write_text(AT_ONCE)
    with pytest.raises(ForageError, match=r"failed at step 1 .*the rope broke") as caught:
        small.train(tmp_path / "run", environment=f"{tmp_path / 'at_once.py'}:Breaks", seeds=[3])
    assert "kept" not in str(caught.value) and not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("NativeShape", r"returned as observation from step float32\[5\]; it should be float32\[4\]"),
        ("NativeReset", r"returned .* from reset; it should be a tuple \(state, observation\)"),
        ("NativeReward", r"returned as reward float32\[3\]; it should be float32\[\]"),
        ("NativeState", r"returned as state from step \.time float32\[\]; it should be int32\[\]"),
        ("NativeTuple", r"it should be a tuple \(state, forage\.core\.types\.Step\)"),
        ("NativeRaises", r"failed in step at line \d+ of .*environments\.py with TracerBoolConversionError"),
        ("RaisesInReset", "could not be made: the rope broke"),
        ("Missing", "has no class Missing"),
    ],
)
def test_an_environment_that_cannot_begin(own, tmp_path, name, said):
    with pytest.raises(ForageError, match=said) as caught:
        small.train(tmp_path / "run", environment=f"{own}:{name}", seeds=[3])
    assert "\n" not in str(caught.value)
    assert not Run.begun(tmp_path / "run")  # so that the same directory can be used once it is mended


@pytest.mark.thorough
def test_seeds_that_got_ahead_stay_ahead(own, tmp_path, monkeypatch):
    """One seed's environment fails: every seed is saved with the steps that it has taken."""
    monkeypatch.setenv("ROPE", "thin")
    with pytest.raises(ForageError, match="the rope broke"):
        small.train(tmp_path / "run", environment=f"{own}:Late", steps=160)
    saved = checkpoint.arrays(Run(tmp_path / "run").checkpoints[-1])
    assert [int(saved[f"[{seed}].steps"]) for seed in (0, 1)] == [48, 32]
    monkeypatch.setenv("ROPE", "thick")
    run = training.resume(tmp_path / "run", display="quiet")
    assert [row["steps"] for row in run.rows] == list(range(16, 161, 16))
    assert np.isfinite(run.evaluation["return"]).all()
