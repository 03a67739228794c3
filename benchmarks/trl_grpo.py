"""One GRPO step of TRL's trainer and of Forage's agent, from the same file of prompts: ids, masks, rewards, loss.

    python benchmarks/trl_grpo.py DIRECTORY [--record tests/environments/text/data/trl_grpo.json]

Makes a tiny random Qwen2 and a JSONL in DIRECTORY. TRL writes answers to its prompts and computes the loss `dapo` with
beta 0 and rewards scaled by their group; Forage reads the same file, takes the same answers, calls the same reward
functions, and computes its own loss and gradient. Needs torch, transformers and trl.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np

ROWS, GROUP, NEW = 2, 4, 12


def score(completions: list[str], answer: list[str], **others: Any) -> list[float]:
    """Return the number of different letters of a completion, less the digits of the answer."""
    letters = [len(set(filter(str.isalpha, said))) for said in completions]
    return [float(count - len(one)) for count, one in zip(letters, answer, strict=True)]


def brief(completion_ids: list[list[int]], **others: Any) -> list[float | None]:
    """Return minus the number of tokens, and None for completions of odd length."""
    return [None if len(ids) % 2 else -len(ids) / 10 for ids in completion_ids]


def make_files(directory: Path) -> None:
    """Write a tiny random Qwen2 with Forage's tokenizer, and a file of prompts."""
    import torch
    from transformers import Qwen2Config, Qwen2ForCausalLM

    from forage.core.text import named

    tokenizer = named.tokenizer("forage")
    torch.manual_seed(0)
    config = Qwen2Config(
        vocab_size=tokenizer.vocabulary,
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        intermediate_size=64,
        max_position_embeddings=128,
        tie_word_embeddings=False,
        initializer_range=0.1,
        bos_token_id=None,
        eos_token_id=tokenizer.end,
        pad_token_id=tokenizer.pad,
    )
    model = Qwen2ForCausalLM(config)
    with torch.no_grad():  # a direction that all texts share makes the end likely, so that lengths differ
        model.model.embed_tokens.weight[:, 0] = 3.0
        model.lm_head.weight *= 10
        model.lm_head.weight[:, 0] = 0.0
        model.lm_head.weight[tokenizer.end, 0] = 3.0
    model.save_pretrained(directory)
    tokenizer.save(directory)
    file = directory / "tokenizer.json"  # without the end that it puts behind a whole text, as TRL would behind prompts
    file.write_text(json.dumps(json.loads(file.read_text()) | {"post_processor": None}))
    rows = [{"prompt": f"Compute {7 * n + 5} + {n}.\n", "answer": str(8 * n + 5)} for n in range(ROWS)]
    (directory / "prompts.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))


def step_trl(directory: Path) -> dict[str, Any]:
    """Return the tensors, the loss and the gradient norm of one step of TRL's trainer."""
    import torch
    from datasets import load_dataset
    from transformers import PreTrainedTokenizerFast
    from trl import GRPOConfig, GRPOTrainer

    found: dict[str, Any] = {}

    class Watched(GRPOTrainer):
        def _calculate_rewards(self, *arguments: Any) -> Any:
            rewards = super()._calculate_rewards(*arguments)
            found["rewards"] = rewards.tolist()
            return rewards

        def _generate_and_score_completions(self, inputs: Any) -> Any:
            made = super()._generate_and_score_completions(inputs)
            names = ("prompt_ids", "prompt_mask", "completion_ids", "completion_mask", "advantages")
            found.update({name: made[name].tolist() for name in names})  # group by group
            whole = torch.cat([made["prompt_ids"], made["completion_ids"]], 1)
            there = torch.cat([made["prompt_mask"], made["completion_mask"]], 1)
            with torch.no_grad():
                found["log_probability"] = self._get_per_token_logps_and_entropies(
                    self.model, whole, there, made["completion_ids"].size(1)
                )[0].tolist()
            return made

        def _compute_loss(self, model: Any, inputs: dict[str, Any]) -> Any:
            loss = super()._compute_loss(model, inputs)
            found["loss"] = loss.item()
            return loss

        def training_step(self, model: Any, *arguments: Any, **options: Any) -> Any:
            loss = super().training_step(model, *arguments, **options)
            slopes = [one.grad.flatten() for one in model.parameters() if one.grad is not None]
            found["gradient_norm"] = torch.cat(slopes).norm().item()
            return loss

    tokenizer = PreTrainedTokenizerFast.from_pretrained(directory)
    arguments = GRPOConfig(
        output_dir=str(directory / "trl"),
        per_device_train_batch_size=ROWS * GROUP,
        num_generations=GROUP,
        max_completion_length=NEW,
        max_steps=1,
        loss_type="dapo",
        beta=0.0,
        scale_rewards="group",
        reward_weights=[1.0, 0.5],
        use_cpu=True,
        bf16=False,
        gradient_checkpointing=False,
        report_to="none",
        save_strategy="no",
        seed=3,
    )
    rows = load_dataset("json", data_files=str(directory / "prompts.jsonl"), split="train")
    made = {"train_dataset": rows, "processing_class": tokenizer}
    Watched(model=str(directory), reward_funcs=[score, brief], args=arguments, **made).train()
    return found


def step_forage(directory: Path, theirs: dict[str, Any]) -> dict[str, Any]:
    """Return the same of Forage's agent, with TRL's answers."""
    import jax
    import jax.numpy as jnp
    import optax

    from forage.agents.language.base import Aux
    from forage.config.resolve import resolve
    from forage.core.types import Batch, Experience

    setup = resolve(
        "grpo",
        f"text:{directory / 'prompts.jsonl'}",
        steps=8,
        seeds=[0],
        rewards=[score, brief],
        reward_weights=[1.0, 0.5],
        environment_options={"response": NEW, "held_out": 0},
        agent_options={
            "model": str(directory),
            "num_envs": ROWS * GROUP,
            "group_size": GROUP,
            "aggregation": "token-mean",
        },
    )
    runner = setup.runner()
    learner = runner.learner
    environment = setup.environment(ROWS * GROUP)
    environment.reset(0)
    seen = []
    for index, tokens in enumerate(unpadded_tokens(theirs, "prompt")):  # the row that TRL drew
        for number in range(ROWS):
            one = environment.begin(index, 0, number)
            if (one["context"][one["context"] > 0] - 1).tolist() == tokens:
                break
        seen.append(one)
    observation = jax.tree.map(lambda *x: np.stack(x), *seen)
    action = np.zeros((ROWS * GROUP, NEW), np.int32)
    for row, own in enumerate(unpadded_tokens(theirs, "completion")):
        action[row, : len(own)] = np.array(own) + 1
    step = environment.step(action).step
    agent = learner.agent
    state = agent.init(jax.random.key(0), learner.spec)
    nothing = np.zeros((ROWS * GROUP, NEW), np.float32)
    one = Experience(
        observation,
        action,
        step.reward,
        step.observation,
        step.terminated,
        step.truncated,
        np.zeros(ROWS * GROUP, np.int32),
        Aux(nothing, nothing + 1),
        info=step.info,
    )
    whole = jax.tree.map(lambda x: jnp.asarray(x)[None], one)
    batch = Batch(whole, jnp.ones(ROWS * GROUP), jnp.arange(ROWS * GROUP))
    lesson = agent.collect_answers(batch)
    reward = agent.group_values(batch, agent.penalised_rewards(batch, lesson.rows))
    lesson = agent.assign_credit(batch, lesson, reward)
    loss, slope = jax.value_and_grad(
        lambda network: agent.objective(network, state, lesson, jnp.bool_(True))[0], allow_int=True
    )(state.network)
    leaves = [x for x in jax.tree.leaves(slope) if jnp.issubdtype(x.dtype, jnp.floating)]
    context = observation["context"]
    return {
        "prompt_ids": [(row[row > 0] - 1).tolist() for row in context],
        "completion_ids": [(row[row > 0] - 1).tolist() for row in action],
        "rewards": np.stack([step.info["reward_score"], step.info["reward_brief"]], 1).tolist(),
        "advantages": lesson.advantage[:, 0].tolist(),
        "loss": float(loss),
        "gradient_norm": float(optax.global_norm(leaves)),
    }


def unpadded_tokens(found: dict[str, Any], kind: str) -> list[list[int]]:
    """Return the tokens of each prompt or completion without its padding."""
    pairs = zip(found[f"{kind}_ids"], found[f"{kind}_mask"], strict=True)
    return [[token for token, there in zip(*pair, strict=True) if there] for pair in pairs]


def main() -> None:
    """Run both steps and print their numbers side by side."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("directory", type=Path)
    parser.add_argument("--record", type=Path)
    given = parser.parse_args()
    given.directory.mkdir(parents=True, exist_ok=True)
    make_files(given.directory)
    theirs = step_trl(given.directory)
    ours = step_forage(given.directory, theirs)
    both = unpadded_tokens(theirs, "prompt"), unpadded_tokens(theirs, "completion")
    same = both == (ours["prompt_ids"], ours["completion_ids"])
    print("ids and masks equal:", same, "" if same else [both, ours["prompt_ids"], ours["completion_ids"]])
    print("rewards equal:", np.allclose(theirs["rewards"], ours["rewards"], equal_nan=True))
    print("advantages differ by", np.abs(np.subtract(theirs["advantages"], ours["advantages"])).max())
    for name in ("loss", "gradient_norm"):
        print(name, theirs[name], ours[name], "relative difference", abs(ours[name] / theirs[name] - 1))
    if given.record:
        rows = [json.loads(line) for line in (given.directory / "prompts.jsonl").read_text().splitlines()]
        given.record.write_text(json.dumps({"rows": rows, **theirs}))


if __name__ == "__main__":
    main()
