"""From nothing to a model that calculates: base model, worked answers, rewards. See docs/language.md."""

import time

import forage
from forage.evaluation.statistics import student_interval

PROBLEMS = "text:arithmetic"


def main(steps: int = 3_200, seeds: int = 5, directory: str = "runs/arithmetic") -> None:
    began = time.monotonic()
    how = {"evaluation_actions": "greedy", "evaluation_episodes": 200}

    # Steps fall to nothing: the base model was made so, and steps of one size cost it more than they teach.
    course = {"learning_rate": 3e-4, "final_learning_rate": 0.0}
    taught = forage.train(
        "sft", PROBLEMS, steps=6 * steps, seeds=1, agent_options=course, directory=f"{directory}-course", **how
    )
    goes_on = {"model": str(taught.directory), "final_learning_rate": 0.0}
    run = forage.train("grpo", PROBLEMS, steps=steps, seeds=seeds, agent_options=goes_on, directory=directory, **how)

    print("return: the share of 200 held-out problems that is right, answered greedily")
    print(f"base model        {taught.evaluations[0]['return'][0]:.3f}")
    for name, found in ("after the course", run.evaluations[0]), ("after rewards", run.evaluations[-1]):
        low, high = student_interval(found["return"])
        print(f"{name:17} {sum(found['return']) / seeds:.3f} [{low:.3f}, {high:.3f}], {seeds} seeds")
    print(f"{time.monotonic() - began:.0f} s; texts.jsonl in {directory} has what it wrote on the way")


if __name__ == "__main__":
    main()
