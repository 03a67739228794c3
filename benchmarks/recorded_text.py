"""Learning from recorded text beside TRL: ids, masks, losses and gradient norms of the same rows (`trl==1.16.0`).

    python benchmarks/recorded_text.py [--write tests/agents/language/data/trl_texts.json | --scripts]

One tiny random Qwen2 directory and one JSONL of each kind are read by both. TRL's numbers are of its own trainers and
collators, in float32 on the CPU, one batch of all rows. `--write` keeps them for the tests, which need neither TRL nor
torch.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

USER = {"role": "user", "content": "What is 2 + 3?"}
DIALOGUES = [
    {"messages": [USER, {"role": "assistant", "content": "5"}, {"role": "user", "content": "And 1 more?"},
                  {"role": "assistant", "content": "That is 6."}]},
    {"messages": [{"role": "system", "content": "Be brief."}, USER, {"role": "assistant", "content": "Five."}]},
]  # fmt: skip
COMPLETIONS = [
    {"prompt": "The sky is", "completion": " blue."},
    {"prompt": "Two and two are", "completion": " four, as they always were."},
]
PAIRS = [
    {"prompt": [USER], "chosen": [{"role": "assistant", "content": "It is 5."}],
     "rejected": [{"role": "assistant", "content": "It is six, I am sure."}]},
    {"prompt": [{"role": "system", "content": "Be brief."}, USER], "chosen": [{"role": "assistant", "content": "5"}],
     "rejected": [{"role": "assistant", "content": "That depends."}]},
]  # fmt: skip
TEXT_PAIRS = [
    {"prompt": "The sky is", "chosen": " blue.", "rejected": " green, as far as I know."},
    {"prompt": "Two and two are", "chosen": " four, as they always were.", "rejected": " five."},
]
"""Pairs without messages: behind these TRL's experimental trainers put one more end token."""
LABELS = [
    {"prompt": "The sky is", "completion": " blue.", "label": True},
    {"prompt": "Grass is", "completion": " red, mostly.", "label": False},
]
STEPS = [
    {"prompt": "What is 2 + 3 + 4?", "completions": ["2 + 3 is 5.", "5 + 4 is 8.", "So it is 8."],
     "labels": [True, False, False]},
    {"prompt": "What is 1 + 1?", "completions": ["It is 2."], "labels": [True]},
]  # fmt: skip
ROWS = {
    "steps": STEPS,
    "messages": DIALOGUES,
    "completion": COMPLETIONS,
    "preference": PAIRS,
    "preference of texts": TEXT_PAIRS,
    "label": LABELS,
}
CASES = {
    "sft-messages": ("sft", "messages", {"only_answers": False}),
    "sft-completion": ("sft", "completion", {}),
    "dpo": ("dpo", "preference", {"beta": 0.1}),
    "ipo": ("ipo", "preference", {"beta": 0.1}),
    "reward-model": ("reward-model", "preference", {"centre": 0.01}),
    "process-reward": ("process-reward", "steps", {}),
    "orpo": ("orpo", "preference of texts", {"preference": "orpo", "beta": 0.1}),
    "simpo": ("simpo", "preference of texts", {"preference": "simpo", "beta": 2.5, "margin": 1.375}),
    "cpo": ("cpo", "preference of texts", {"preference": "cpo", "beta": 0.1}),
    "kto": ("kto", "label", {"beta": 0.1}),
}
"""By name: the method, the kind of rows, and its options."""
TARGETS = {"orpo": "dpo", "simpo": "dpo", "cpo": "dpo", "kto": "forage_papers.agents.language.kto:KTO"}
"""The agents of methods of other names; those of papers by their classes, as they are found without an installation."""


def write_model(directory: Path, seed: int = 0) -> Any:
    """Write a tiny random Qwen2 with a byte tokenizer and a chat template, and return the transformer."""
    from forage.core.text.chat import CHATML, CHATML_TOKENS
    from forage.core.text.own import BytePairs
    from forage.nn.language.architecture import Architecture
    from forage.nn.language.directory import with_tokens
    from forage.nn.transformer import Transformer

    tokenizer = BytePairs(special=CHATML_TOKENS, template=CHATML)
    architecture = Architecture(
        vocabulary=tokenizer.vocabulary, width=32, layers=2, heads=4, key_heads=2, inner=64, length=256,
        family="qwen2", attention_bias=True,
    )  # fmt: skip
    network = Transformer(jax.random.key(seed), architecture)
    network = jax.tree.map(lambda x: x * 3 if x.ndim > 1 else x, network)  # so that tokens differ in probability
    network = with_tokens(network, end=tokenizer.end, pad=tokenizer.pad)
    network.save(str(directory))
    tokenizer.save(directory)
    words = json.loads((directory / "tokenizer.json").read_text())
    (directory / "tokenizer.json").write_text(json.dumps(words | {"post_processor": None}))  # nothing around a text
    return network


def head_of(width: int, of_steps: bool = False) -> np.ndarray:
    """Return the vector of the reward model's head, or the matrix of that of steps, by a formula."""
    place = np.arange(width + of_steps, dtype=np.float32)
    return np.stack([np.sin(place), np.cos(place)]) if of_steps else np.sin(place)


def read_case(name: str, tokenizer: Any) -> tuple[Any, Any]:
    """Return the agent of a case, and its rows as tokens."""
    from forage.config.registry import choose_part
    from forage.data.text.rows import read_rows
    from forage.data.text.tokens import SEPARATOR, RowEncoder, encode_rows

    method, kind, options = CASES[name]
    agent: Any = choose_part("agent", TARGETS.get(method, method), options).build_part()
    told = dict(agent.text_options)
    encoder = RowEncoder(tokenizer, getattr(agent, "only_answers", True), told.pop("separator", SEPARATOR))
    return agent, encode_rows(read_rows(ROWS[kind], (kind.split()[0],)), encoder, 256, **told)


def ids_and_masks(name: str, rows: Any) -> dict[str, Any]:
    """Return the token ids of each text and the mask of those that are learned from, as TRL's batches have them.

    Of a reward model TRL has no mask, and the answers of other rows that KTO needs stand apart.
    """
    text, wrote = (x.reshape(-1, x.shape[-1]) for x in (rows.text, rows.wrote))
    if name == "kto":
        text, wrote = text[::2], wrote[::2]
    ids = [(one[one > 0] - 1).tolist() for one in text]
    wrote = wrote & (name != "reward-model")
    masks = [mask[one > 0].astype(int).tolist() for one, mask in zip(text, wrote, strict=True)]
    return {"ids": ids, "masks": masks}


def measure_ours(name: str, network: Any, tokenizer: Any) -> dict[str, Any]:
    """Return ids, masks, loss and gradient norm of a case."""
    from forage.agents.language.base import LanguageState
    from forage.agents.language.reward_model import ScorerState
    from forage.core.types import Batch
    from forage.memory.texts import experience_of

    agent, rows = read_case(name, tokenizer)
    experience = jax.tree.map(lambda x: x[None], experience_of(rows))
    batch = Batch(experience, jnp.ones(len(rows)), jnp.arange(len(rows)))
    reference = make_reference(network) if agent.referred else ()
    plain = (), reference, jnp.int32(tokenizer.end), jnp.ones(network.architecture.vocabulary, bool)
    head = jnp.asarray(head_of(network.architecture.width, name == "process-reward"))
    scorer = name in ("reward-model", "process-reward")
    state: Any = ScorerState(network, *plain, head) if scorer else LanguageState(network, *plain)

    def loss(learned: Any) -> jax.Array:
        if scorer:
            return agent.compare(learned[0], learned[1], agent.items(state, batch))[0]
        return agent.text_loss(learned, state, agent.items(state, batch))[0]

    value, gradient = jax.jit(jax.value_and_grad(loss))((network, head) if scorer else network)
    norm = jnp.sqrt(sum(jnp.sum(x**2) for x in jax.tree.leaves(gradient)))
    return {**ids_and_masks(name, rows), "loss": float(value), "norm": float(norm)}


def make_reference(network: Any) -> Any:
    """Return another policy to compare with: the weights a tenth smaller."""
    return jax.tree.map(lambda x: x * 0.9 if x.ndim > 1 else x, network)


def measure_theirs(name: str, directory: Path, reference: Path) -> dict[str, Any]:
    """Return the same of TRL's trainer, by its own data pipeline."""
    import torch
    from datasets import Dataset
    from transformers import AutoModelForCausalLM, AutoModelForSequenceClassification, PreTrainedTokenizerFast

    agent, kind, options = CASES[name]
    words = PreTrainedTokenizerFast.from_pretrained(directory)
    data = Dataset.from_list(ROWS[kind])
    count = len(ROWS[kind])
    common = {
        "output_dir": str(directory / "out"), "per_device_train_batch_size": count, "report_to": [], "use_cpu": True,
        "bf16": False, "fp16": False, "max_length": 256, "gradient_checkpointing": False,
        "dataloader_pin_memory": False,
    }  # fmt: skip
    load = lambda path: AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32)  # noqa: E731
    model: Any = load(directory)
    beside = {"processing_class": words, "train_dataset": data}
    if agent == "sft":
        from trl import SFTConfig, SFTTrainer

        trainer = SFTTrainer(model, SFTConfig(**common, loss_type="nll"), **beside)
    elif agent in ("dpo", "ipo"):
        from trl import DPOConfig, DPOTrainer

        loss = {"dpo": "sigmoid", "ipo": "ipo"}[agent]
        trainer = DPOTrainer(model, load(reference), DPOConfig(**common, loss_type=[loss], beta=0.1), **beside)
    elif agent == "reward-model":
        from trl import RewardConfig, RewardTrainer

        model = AutoModelForSequenceClassification.from_pretrained(directory, num_labels=1, dtype=torch.float32)
        model.score.weight.data = torch.from_numpy(head_of(model.config.hidden_size))[None]
        config = RewardConfig(**common, center_rewards_coefficient=options["centre"])
        trainer = RewardTrainer(model, config, **beside)
    elif agent == "process-reward":  # of an earlier TRL than 1.16, which lacks it
        from transformers import AutoModelForTokenClassification
        from trl.experimental.prm import PRMConfig, PRMTrainer

        model = AutoModelForTokenClassification.from_pretrained(directory, num_labels=2, dtype=torch.float32)
        head = torch.from_numpy(head_of(model.config.hidden_size, True))
        model.score.weight.data, model.score.bias.data = head[:, :-1].contiguous(), head[:, -1].contiguous()
        trainer = PRMTrainer(model, PRMConfig(**common), **beside)
    elif agent == "kto":
        from trl import KTOConfig, KTOTrainer

        trainer = KTOTrainer(model, load(reference), KTOConfig(**common, beta=0.1), **beside)
    elif agent == "orpo":
        from trl.experimental.orpo import ORPOConfig, ORPOTrainer

        trainer = ORPOTrainer(model, ORPOConfig(**common, beta=0.1), **beside)
    else:
        from trl.experimental.cpo import CPOConfig, CPOTrainer

        kinds = {"cpo": {"loss_type": "sigmoid", "beta": 0.1, "cpo_alpha": 1.0},
                 "simpo": {"loss_type": "simpo", "beta": 2.5, "simpo_gamma": 1.375, "cpo_alpha": 0.0}}  # fmt: skip
        trainer = CPOTrainer(model, CPOConfig(**common, **kinds[agent]), **beside)
    trainer.model.eval()  # without dropout, of which there is none
    if hasattr(trainer, "_train_dataloader_shuffle"):
        trainer._train_dataloader_shuffle = False
    rows = [trainer.train_dataset[i] for i in range(count)]
    inputs = trainer.data_collator(rows)
    inputs = {key: value for key, value in inputs.items() if not isinstance(value, list)} if agent == "sft" else inputs
    trainer.model.train()
    loss = trainer.compute_loss(trainer.model, inputs)
    loss.backward()
    norm = torch.sqrt(sum((p.grad**2).sum() for p in trainer.model.parameters() if p.grad is not None))
    return {**collated(agent, inputs), "loss": float(loss.detach()), "norm": float(norm)}


def collated(agent: str, inputs: Any) -> dict[str, Any]:
    """Return ids and masks of a batch as a collator of TRL's made it, row by row, the chosen answer first."""
    if agent in ("orpo", "cpo", "simpo"):
        pairs = [
            (inputs[f"{kind}_input_ids"][i], inputs[f"{kind}_attention_mask"][i], inputs[f"{kind}_labels"][i] != -100)
            for i in range(len(inputs["chosen_input_ids"]))
            for kind in ("chosen", "rejected")
        ]
    else:
        ids, there = inputs["input_ids"], inputs["attention_mask"]
        if "labels" in inputs:
            mask = inputs["labels"] != -100
        elif "completion_mask" in inputs:
            mask = inputs["completion_mask"] == 1
        else:
            mask = None
        order = range(len(ids))
        if agent in ("dpo", "ipo", "reward-model"):
            half = len(ids) // 2
            order = [j for i in range(half) for j in (i, i + half)]
        pairs = [(ids[i], there[i], there[i] * 0 if mask is None else mask[i]) for i in order]
    found = [(ids[there == 1].tolist(), mask[there == 1].int().tolist()) for ids, there, mask in pairs]
    return {"ids": [one for one, _ in found], "masks": [mask for _, mask in found]}


SCRIPTS = {
    "sft": ("SFTTrainer", "messages"),
    "dpo": ("DPOTrainer", "preference"),
    "reward-model": ("RewardTrainer", "preference"),
}
"""TRL's README scripts, by our agent: the trainer, and the kind of rows."""
THEIRS = """\
from trl import {trainer}
from datasets import load_dataset

dataset = load_dataset("json", data_files="{data}", split="train")

trainer = {trainer}(
    model="{model}",
    train_dataset=dataset,
)
trainer.train()
"""
OURS = """\
import forage

run = forage.train("{agent}", data="{data}", model="{model}", seeds=1, directory="{agent}")
"""
THEIR_SPEED = "print(trainer.state.log_history[-1]['train_steps_per_second'])"
OUR_SPEED = "print(run.rows[-1]['steps_per_second'])"


def run_scripts(rows: int = 64) -> None:
    """Run TRL's README scripts and ours on a tiny model and a file of rows, and print lines and steps a second.

    Both make three passes in batches of eight (TRL's reward model one). Ours holds a tenth of the rows out. TRL's get
    options for the CPU, which are not counted.
    """
    with tempfile.TemporaryDirectory() as folder:
        base = Path(folder)
        write_model(base / "model")
        for agent, (trainer, kind) in SCRIPTS.items():
            data = base / f"{agent}.jsonl"
            data.write_text("".join(json.dumps(ROWS[kind][i % 2]) + "\n" for i in range(rows)))
            config = f"__import__('trl').{trainer.replace('Trainer', 'Config')}(use_cpu=True, bf16=False, report_to=[])"
            names = {"trainer": trainer, "agent": agent, "data": data, "model": base / "model"}
            found = []
            for script, said in ((THEIRS, THEIR_SPEED), (OURS, OUR_SPEED)):
                text = script.format(**names)
                on_cpu = text.replace("train_dataset=dataset,", f"train_dataset=dataset, args={config},")
                done = subprocess.run(
                    [sys.executable, "-c", on_cpu + said], cwd=folder, capture_output=True, text=True, check=False
                )
                if done.returncode:
                    raise SystemExit(done.stderr[-2000:])
                lines = sum(bool(line.strip()) for line in text.splitlines())
                found.append((lines, float(done.stdout.split()[-1])))
            print(
                f"{agent:14} TRL {found[0][0]} lines, {found[0][1]:.2f} steps/s; Forage {found[1][0]} lines, "
                f"{found[1][1]:.2f} steps/s",
                flush=True,
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", help="the JSON to keep TRL's numbers in")
    parser.add_argument("--only", nargs="*", default=list(CASES), help="names of cases")
    parser.add_argument("--scripts", action="store_true", help="run TRL's README scripts and ours beside them")
    given = parser.parse_args()
    if given.scripts:
        run_scripts()
        return
    kept = {}
    with tempfile.TemporaryDirectory() as folder:
        from forage.core.text.tokenizer import Tokenizer

        base, reference = (Path(folder) / name for name in ("model", "reference"))
        network = write_model(base)
        make_reference(network).save(str(reference))
        tokenizer = Tokenizer.load(base)
        for name in given.only:
            kept[name], mine = measure_theirs(name, base, reference), measure_ours(name, network, tokenizer)
            same = all(mine[key] == kept[name][key] for key in ("ids", "masks"))
            apart = [abs(mine[key] - kept[name][key]) / abs(kept[name][key]) for key in ("loss", "norm")]
            print(
                f"{name:16} ids and masks {'equal' if same else 'DIFFER'}; loss {mine['loss']:.7f} and "
                f"{kept[name]['loss']:.7f}, apart {apart[0]:.1e}; gradient norm {mine['norm']:.6f} and "
                f"{kept[name]['norm']:.6f}, apart {apart[1]:.1e}",
                flush=True,
            )
    if given.write:
        Path(given.write).write_text(json.dumps({"trl": "1.16.0", "cases": kept}) + "\n")


if __name__ == "__main__":
    main()
