"""TRL: GRPO of a tiny Llama on the CPU, generation by transformers; or that generation alone."""

from __future__ import annotations

import common

ROW, SETTINGS = common.arguments()
common.keep_to(SETTINGS["cores"])

import random  # noqa: E402 (PyTorch counts the cores when it is imported)
import tempfile  # noqa: E402
import time  # noqa: E402
from typing import Any  # noqa: E402

import datasets  # noqa: E402
import tokenizers  # noqa: E402
import torch  # noqa: E402
import transformers  # noqa: E402
import trl  # noqa: E402

SECONDS_IMPORT = common.seconds_since_start()
PAD, END = 0, 1
PACKAGES = ("trl", "transformers", "torch", "datasets", "accelerate")


def network(settings: dict[str, Any]) -> transformers.LlamaForCausalLM:
    """A Llama with random weights."""
    sizes = settings["model"]
    config = transformers.LlamaConfig(
        vocab_size=sizes["vocabulary"],
        hidden_size=sizes["width"],
        intermediate_size=sizes["inner"],
        num_hidden_layers=sizes["layers"],
        num_attention_heads=sizes["heads"],
        num_key_value_heads=sizes["heads"],
        max_position_embeddings=sizes["length"],
        tie_word_embeddings=True,
        pad_token_id=PAD,
        bos_token_id=None,
        eos_token_id=END,
    )
    torch.manual_seed(settings["seed"])
    return transformers.LlamaForCausalLM(config)


def words(settings: dict[str, Any]) -> transformers.PreTrainedTokenizerFast:
    """A tokenizer whose tokens are words: `<pad>`, `<end>`, and `w2` to the last."""
    names = ["<pad>", "<end>", *(f"w{number}" for number in range(2, settings["model"]["vocabulary"]))]
    level = tokenizers.models.WordLevel({name: number for number, name in enumerate(names)}, unk_token="<pad>")
    made = tokenizers.Tokenizer(level)
    made.pre_tokenizer = tokenizers.pre_tokenizers.WhitespaceSplit()
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=made, pad_token="<pad>", eos_token="<end>", unk_token="<pad>", padding_side="left"
    )


def prompts(settings: dict[str, Any], number: int) -> list[str]:
    """So many random prompts of equal length."""
    drawn = random.Random(settings["seed"])
    length, last = settings["prompt_tokens"], settings["model"]["vocabulary"] - 1
    return [" ".join(f"w{drawn.randint(2, last)}" for _ in range(length)) for _ in range(number)]


class Stopwatch(transformers.TrainerCallback):
    """Notes when the second step begins, before which things are made once, and when the last ends."""

    def on_step_end(self, args: Any, state: Any, control: Any, **others: Any) -> None:
        if state.global_step == 1:
            self.began = time.perf_counter(), time.process_time()
        self.ended = time.perf_counter(), time.process_time()


def step(settings: dict[str, Any]) -> tuple[float, float, float]:
    """Train; returns seconds and core-seconds of all steps but the first, and the last rewards' mean."""
    rows, rewards = settings["prompts"] * settings["group"], [0.0]

    def reward(completions: list[str], **others: Any) -> list[float]:
        found = [float(len(text) % 2) for text in completions]  # differs within a group
        rewards[0] = sum(found) / len(found)
        return found

    with tempfile.TemporaryDirectory() as folder:
        config = trl.GRPOConfig(
            output_dir=folder,
            per_device_train_batch_size=rows,
            num_generations=settings["group"],
            max_completion_length=settings["new_tokens"],
            generation_kwargs={"min_new_tokens": settings["new_tokens"]},  # so that each answer is as long
            max_steps=settings["updates"] + 1,
            num_iterations=1,
            beta=0.0,
            temperature=1.0,
            loss_type="grpo",
            learning_rate=settings["learning_rate"],
            lr_scheduler_type="constant",
            gradient_checkpointing=False,  # it would save memory and take time
            bf16=False,
            use_cpu=True,
            seed=settings["seed"],
            logging_strategy="no",
            save_strategy="no",
            report_to="none",
            disable_tqdm=True,
        )
        watch = Stopwatch()
        data = datasets.Dataset.from_dict({"prompt": prompts(settings, settings["prompts"] * config.max_steps)})
        trainer = trl.GRPOTrainer(
            model=network(settings),
            reward_funcs=reward,
            args=config,
            train_dataset=data,
            processing_class=words(settings),
            callbacks=[watch],
        )
        trainer.train()
    seconds, core_seconds = (after - before for before, after in zip(watch.began, watch.ended, strict=True))
    return seconds, core_seconds, rewards[0]


def generate(settings: dict[str, Any]) -> tuple[float, float, float]:
    """Generate as TRL does; returns seconds and core-seconds of all calls but the first."""
    model, length = network(settings).eval(), settings["new_tokens"]
    asked = words(settings)(prompts(settings, settings["prompts"]), return_tensors="pt")
    given = {name: asked[name].repeat_interleave(settings["group"], 0) for name in ("input_ids", "attention_mask")}
    how = transformers.GenerationConfig(
        max_new_tokens=length,
        min_new_tokens=length,
        do_sample=True,
        top_k=0,
        pad_token_id=PAD,
        eos_token_id=END,
        disable_compile=True,  # as TRL has it
    )
    with torch.no_grad():
        for number in range(settings["updates"] + 1):
            if number == 1:
                began = time.perf_counter(), time.process_time()
            model.generate(**given, generation_config=how)
    return time.perf_counter() - began[0], time.process_time() - began[1], 0.0


def main() -> None:
    torch.set_num_threads(SETTINGS["cores"])
    seconds, core_seconds, reward = {"step": step, "generate": generate}[SETTINGS["part"]](SETTINGS)
    tokens = SETTINGS["updates"] * SETTINGS["prompts"] * SETTINGS["group"] * SETTINGS["new_tokens"]
    common.report(
        seconds_import=SECONDS_IMPORT,
        seconds_compile=None,
        seconds_steady=seconds,
        core_seconds=core_seconds,
        seconds_outside=0.0,
        steps=tokens,
        updates=SETTINGS["updates"],
        total_steps=tokens,
        final_return=[reward],
        packages=PACKAGES,
    )


if __name__ == "__main__":
    main()
