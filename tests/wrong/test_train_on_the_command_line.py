"""Journey 1: train from the command line."""

import pytest

WRONG = [
    (
        "train dreamer CartPole-v1",
        "Unknown agent 'dreamer': dreamer .*is not here; nearest in kind are 'sac' and 'ppo'",
    ),
    ("train fqf CartPole-v1", "is not here; nearest in kind are 'iqn' and 'qr-dqn'"),
    ("train acktr CartPole-v1", "ACKTR .a natural-gradient actor-critic. is not here; nearest in kind"),
    ("train npg CartPole-v1", "Unknown agent 'npg': here it is trpo with --line-search-steps 0"),
    (
        "train trpo CartPole-v1 --clip 0.3",
        "TRPO bounds each step .* leave clip out, or take ppo",
    ),
    ("train dqn CartPole-v1 --noisy true --recycle-interval 10", "Dormant units are not looked for in noisy layers"),
    ("train iqn CartPole-v1 --gru-size 8", "IQN has no memory yet; leave gru_size out, or take dqn"),
    ("train ddqn CartPole-v1", "Unknown agent 'ddqn': here it is dqn, whose target"),
    ("show muzero", "Unknown part or environment 'muzero': .* nearest in kind is 'gumbel-search'"),
    ("train ppo ALE/Pong-v5", "Unknown environment 'ALE/Pong-v5'. Did you mean 'ale:Pong' or 'gymnasium:ALE/Pong-v5'"),
    ("train ppo Ant-v5", "Unknown environment 'Ant-v5'. Did you mean 'gymnasium:Ant-v5'[?]"),
    ("train ppo CartPole-v1 --gpu", "There is no option '--gpu': JAX takes the GPU"),
    ("train ppo CartPole-v1 --gpus 2", "forage train has no option '--gpus': JAX takes the GPU"),
    ("train ppo CartPole-v1 --gpu 1", "forage train has no option '--gpu': JAX takes the GPU"),
    ("train ppo CartPole-v1 --render", "There is no option '--render': .*forage watch RUN films"),
    ("train ppo cartpole", "Unknown environment 'cartpole'. Did you mean 'CartPole-v1'"),
    ("train PPO CartPole-v1", "Unknown agent 'PPO'. Did you mean 'ppo'"),
    ("train xyzzy CartPole-v1", "Unknown agent 'xyzzy'; forage list agents shows them"),
    ("train ppo Pong-v5", "Did you mean 'gymnasium:ALE/Pong-v5'"),
    ("train ppo gym:CartPole-v1", "Unknown environment 'gym:CartPole-v1'. Did you mean .*'gymnasium:CartPole-v1'"),
    ("train ppo DeepSea-0", "DeepSea cannot have size 0; any size from 2 up works"),
    ("train ppo CartPole-v1 --directory run", "run already holds a run; forage resume run continues it"),
    ("train ppo CartPole-v1 --directory=", "--directory needs a value"),
    ("train ppo CartPole-v1 --track=", "--track needs a value"),
    ("train ppo CartPole-v1 \N{EM DASH}steps 500", "Unknown option '\N{EM DASH}steps'. Did you mean '--steps'"),
    ("train ppo CartPole-v1 --learning-rate 1e400", "learning-rate of ppo is 0 or more, not inf"),
    ("train ppo CartPole-v1 --learning-rate 1,2", "--learning-rate is a number, not '1,2'"),
    (
        "train ppo CartPole-v1 --hidden-sizes 64x64",
        "whole numbers with commas between them, such as 64,64, not '64x64'",
    ),
    ("train ppo CartPole-v1 --hidden-sizes=[64,a]", "whole numbers with commas between them, .* not '.64,a.'"),
    ("train ppo CartPole-v1 --hidden-sizes 1000000,1000000", "takes 120 TB of memory, and .* smaller networks"),
    ("train ppo CartPole-v1 --num-envs 1e30", "A rollout of .* is longer than a run can be"),
    ("train ppo CartPole-v1 --devices gpu", "--devices is a whole number"),
    ("train ppo CartPole-v1 --fsdp 8", "'--fsdp'. Did you mean '--mesh'"),
    ("train ppo CartPole-v1 --device cuda", "'--device'. Did you mean '--devices'"),
    ("train ppo CartPole-v1 --evaluation-every 0", "1 or more, not 0"),
    (
        "train ppo CartPole-v1 --evaluation-episodes 1e12",
        "at most 1,000,000 evaluation episodes, not 1,000,000,000,000",
    ),
    ("train ppo CartPole-v1 --seeds 1-5", "--seeds is how many, such as 5, or which.* not '1-5'"),
    ("train ppo CartPole-v1 --seeds 1e9", "A run has at most 100,000 seeds"),
    ("train ppo CartPole-v1 --steps 10,000", "--steps is a whole number such as 500k, not '10,000'"),
    ("train ppo CartPole-v1 --env.length long", "length of CartPole-v1 is a number, such as 0.5, not 'long'"),
    ("train ppo CartPole-v1 --env.length none", "length of CartPole-v1 is a number, such as 0.5, not None"),
    ("train ppo CartPole-v1 --env.length 1,2", "length of CartPole-v1 is a number, such as 0.5, not"),
    ("train ppo CartPole-v1 --rewards rnd,icm", "Unknown rewards part 'rnd,icm'. Did you mean 'rnd' or 'icm'"),
    ("train ppo CartPole-v1 --opponent random", "has one agent, so there is no seat for an opponent"),
    ("train ppo CartPole-v1 --directory /dev/null/x", "Could not make /dev/null/x"),
]


@pytest.mark.parametrize(("words", "said"), WRONG, ids=[words for words, _ in WRONG])
def test_one_sentence(words, said, answer):
    answer(words, said)
