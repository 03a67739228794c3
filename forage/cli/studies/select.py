"""`forage select`: judge off-policy estimates by the policies that they select."""

from __future__ import annotations

from typing import Any

from forage.cli.arguments import display, nothing_left, say
from forage.config import options
from forage.core.errors import ForageError

HELP = """\
forage select TABLE.csv --baseline VALUE [OPTIONS]
forage select RUN RUN ... --data FILE [OPTIONS]

If the k policies with the highest estimates were tried one after another, how good would the best be, and how bad the
others? For each estimator: SharpeRatio@k = (best@k - behaviour) / std@k (never below 0; nan where the k are equally
good and none is better), the best, worst and spread of the k, regret@k and rank correlation with the true values.

Of runs, the first table has the estimated value of each policy with its interval, the transitions and episodes behind
it, and warnings (forage estimate --help). Estimators are judged if all runs were evaluated and an action is one choice.

A table has the columns policy, value (the true one) and one for each estimator. For runs, the value is the mean return
of the evaluation, and the estimates use a data set of discrete actions with its mean return as the behaviour's value.

  --k K                  policies to try; default 3
  --baseline VALUE       value of the behaviour policy; for runs by default the data's mean return
  --threshold VALUE      value below which a policy is unsafe; the share of such policies is in the JSON
  --data FILE            the data set for the estimates, for runs
  --discount NUMBER      discount of the estimated returns, for runs; default 0.99
  --horizon N            steps in the estimates, for runs; default all
  --estimators NAME,...  the estimators, for runs; by default those that the data allows
  --trust                use the maker's code and addresses named in the runs; they are shown and remembered
  --quiet | --json       show nothing; one JSON object

Examples
  forage select estimates.csv --baseline 21.5 --k 3
  forage select runs/a runs/b runs/c --data log.npz --k 2
"""
OF_RUNS: dict[str, Any] = {"discount": float, "horizon": int, "estimators": tuple[str, ...]}


def run(positional: list[str], words: options.Words) -> None:
    """Run `forage select`."""
    kind = display(words)
    k = options.parse("k", words.pop("k", "3"), int)
    baseline, threshold = (
        options.parse(name, words.pop(name), float) if name in words else None for name in ("baseline", "threshold")
    )
    file = str(words.pop("data")) if "data" in words else None
    given = {name: options.parse(name, words.pop(name), OF_RUNS[name]) for name in OF_RUNS if name in words}
    nothing_left(words, "select", ["k", "baseline", "threshold", "data", *OF_RUNS, "json", "quiet"])
    if not positional:
        raise ForageError("forage select takes a table, or runs and --data FILE; forage select --help explains it.")
    from forage.studies.select import of_runs, rank_runs, read_table, reason_not_to_judge, select

    ranking = None
    if file is None:
        if len(positional) != 1 or not positional[0].endswith(".csv"):
            raise ForageError("Runs are judged by estimates from a data set; name it with --data FILE.")
        if given:
            raise ForageError(f"--{options.hyphens(next(iter(given)))} is for estimates made here; it needs --data.")
        if baseline is None:
            raise ForageError("A table does not say what the policy that acted is worth; name it: --baseline VALUE.")
        values, estimates = read_table(positional[0])
    else:
        from forage.runs.training import use_compilation_cache

        use_compilation_cache()
        ranking = rank_runs(positional, file, given.get("discount", 0.99))
        if kind not in ("json", "quiet"):
            print(ranking)
        if why := reason_not_to_judge(positional):
            if kind == "json":
                say({"ranking": ranking.data(), "judged": None, "why": why})
            elif kind != "quiet":
                print(why)
            return
        values, estimates, own = of_runs(positional, file, **given)
        baseline = own if baseline is None else baseline
    found = select(values, estimates, baseline, k, threshold)
    if kind == "json":
        say(found.data() | ({} if ranking is None else {"ranking": ranking.data()}))
    elif kind != "quiet":
        print(found)
