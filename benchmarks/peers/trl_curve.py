"""TRL: GRPO of a checkpoint on a file of prompts with a reward function, and the mean reward of every update.

Called as `python trl_curve.py ROW '{"model": DIRECTORY, "prompts": FILE.jsonl, "reward": FILE.py, "output": DIRECTORY,
...}'`. The last line of its output is one JSON object: `curve` has a pair of update and mean reward for each update,
`seconds` those of the training. The trained model is written to `output`.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import json
import tempfile
import time
from pathlib import Path
from typing import Any

import common
import torch
from datasets import load_dataset
from transformers import PreTrainedTokenizerFast
from trl import GRPOConfig, GRPOTrainer

PACKAGES = ("trl", "transformers", "torch", "datasets", "accelerate")


def load_function(file: str, name: str) -> Any:
    """Return a function of a Python file."""
    spec = importlib.util.spec_from_file_location("reward", file)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return getattr(module, name)


def main() -> None:
    """Train, write the model, and print the curve."""
    _, settings = common.arguments()
    torch.set_num_threads(1)
    group, answers = settings["group"], settings["prompts_at_once"] * settings["group"]
    tokenizer = PreTrainedTokenizerFast.from_pretrained(settings["model"])
    with tempfile.TemporaryDirectory() as folder:
        config = GRPOConfig(
            output_dir=folder,
            per_device_train_batch_size=answers,
            num_generations=group,
            max_completion_length=settings["longest"],
            max_steps=settings["updates"],
            num_iterations=1,
            beta=0.0,
            temperature=1.0,
            top_k=0,
            top_p=1.0,
            loss_type="grpo",
            scale_rewards="group",
            epsilon=0.2,
            learning_rate=settings["learning_rate"],
            lr_scheduler_type="constant",
            warmup_steps=0,
            weight_decay=0.0,
            adam_beta1=0.9,
            adam_beta2=0.999,
            adam_epsilon=1e-8,
            max_grad_norm=1.0,
            gradient_checkpointing=False,
            bf16=False,
            use_cpu=True,
            seed=settings["seed"],
            data_seed=settings["seed"],
            logging_steps=1,
            save_strategy="no",
            report_to="none",
            disable_tqdm=True,
        )
        trainer = GRPOTrainer(
            model=settings["model"],
            reward_funcs=load_function(settings["reward"], "score"),
            args=config,
            train_dataset=load_dataset("json", data_files=settings["prompts"], split="train"),
            processing_class=tokenizer,
        )
        began = time.perf_counter()
        trainer.train()
        seconds = time.perf_counter() - began
    output = Path(settings["output"])
    trainer.model.save_pretrained(output)
    tokenizer.save_pretrained(output)
    curve = [(row["step"], row["reward"]) for row in trainer.state.log_history if "reward" in row]
    lengths = [row["completions/mean_length"] for row in trainer.state.log_history if "reward" in row]
    found = {"curve": curve, "length": sum(lengths) / len(lengths), "seconds": seconds}
    print(json.dumps(found | {"versions": {name: importlib.metadata.version(name) for name in PACKAGES}}), flush=True)


if __name__ == "__main__":
    main()
