"""Journey 6: evaluate, compare, report and watch runs."""

import pytest

import forage

WRONG = [
    ("evaluate begun", "begun has no checkpoint yet, so there is no agent to evaluate"),
    ("evaluate another", "is not the configuration of a run of Forage"),
    ("evaluate a_list", "is not the configuration of a run of Forage"),
    ("evaluate run --episodes 1e18", "A score takes at most 1,000,000 evaluation episodes"),
    ("evaluate run --seed -1", "The seed of an evaluation is from 0 to 1,000,000, not -1"),
    ("evaluate run --seed 99999999999", "The seed of an evaluation is from 0 to 1,000,000"),
    ("evaluate run --actions best", "Actions in evaluation are auto, greedy or sampled, not 'best'"),
    ("evaluate run --checkpoint best", "run has kept no checkpoints; a run does that with --keep best"),
    ("evaluate run --grid lenght=0.5:1:3", "no field 'lenght'. Did you mean 'length'"),
    ("evaluate run --grid length=-1:1:3", "length of CartPole is above 0, not -1"),
    ("evaluate run --grid length=a,b", "A grid is a field and its values"),
    ("evaluate run --n-eval-episodes 10", "Did you mean '--episodes'"),
    ("evaluate file.txt", "file.txt is not a run"),
    ("compare run run", "run is named twice; name each run once"),
    ("compare run begun", "begun has no metrics yet; train it first"),
    ("compare run no_score", "no_score/evaluation.json cannot be read"),
    ("compare run another", "is not the configuration of a run of Forage"),
    ("compare run damaged --output x.jpg", "A picture is a .png, a .svg or a .pdf, and x.jpg is none"),
    ("compare run damaged --output file.txt/x.png", "Could not save file.txt/x.png"),
    ("compare run damaged --output /dev/null/x.png", "Could not save /dev/null/x.png"),
    ("compare run damaged --labels a", "Labels are one for each run, 2 here, and not 1"),
    ("compare run damaged --size wide", "--size is a width and a height in inches, such as 7.2x4.2, not 'wide'"),
    ("compare run damaged --size 0x4", "The size of a picture is its width and height, each from 1 to 100 inches"),
    ("compare run damaged --smooth -5", "Smoothing is over 0 steps or more, not -5"),
    ("compare run damaged --looks 0", "Runs are compared at one look or more, not at 0"),
    ("compare run damaged --metrics entropi", "None of these runs has a metric 'entropi'. Did you mean 'entropy'"),
    ("compare run damaged --curves x.txt", "Curves are a .csv or a .parquet, and x.txt is neither"),
    ("compare run nothing.csv", "nothing.csv cannot be read: No such file or directory"),
    ("report run --curves x.txt", "Curves are a .csv or a .parquet, and x.txt is neither"),
    ("report run --smooth many", "--smooth is a whole number such as 500k, not 'many'"),
    ("report no_settings", "is not the configuration of a run of Forage"),
    ("report run run", "run is named twice"),
    ("report run --output x.pdf", "A report is an .html file"),
    ("report run --threshold high", "--threshold is a number, not 'high'"),
    ("runs file.txt", "file.txt is not a folder; name one that holds runs"),
    ("runs . --state over", "A run is done, running, stopped, damaged, not 'over'"),
    ("runs . --sort scores", "Runs are sorted by .* not 'scores'. Did you mean 'score'"),
    ("runs . --since yesterday", "A date is written as 2026-01-31, and 'yesterday' is not"),
    ("runs . --limit 0", "--limit is 1 or more, not 0"),
    ("runs . --above high", "--above is a number, not 'high'"),
    ("runs . --env CartPole-v1", "'--env'. Did you mean '--environment'"),
    ("runs one two", "forage runs takes one folder"),
    ("estimate run", "A value is estimated from a log; name it with --data FILE"),
    ("estimate --data bad.npz", "forage estimate takes one run's directory"),
    ("estimate run --data nothere.npz", "There is no data set nothere.npz"),
    ("estimate run --data other.npz", "has no header of a data set"),
    ("estimate run --data bad.npz --discount much", "--discount is a number, not 'much'"),
    ("estimate run --data bad.npz --confidance 0.9", "Did you mean '--confidence'"),
    ("estimate run --data bad.npz --seed 99", "run has seeds 3, 7, not 99"),
    ("estimate begun --data bad.npz", "begun holds no trained agent"),
    ("watch run --output x.avi", "A film is an .mp4, a .webp or a .gif, and x.avi is none of them"),
    ("watch run --output file.txt/x.gif", "Could not write file.txt/x.gif"),
    ("watch run --seed 9", "run has seeds 3, 7, not 9"),
    ("watch begun", "begun holds no trained agent"),
    ("watch damaged", "damaged/agent.npz is not a whole Forage checkpoint: it is damaged"),
]


@pytest.mark.parametrize(("words", "said"), WRONG, ids=[words for words, _ in WRONG])
def test_one_sentence(words, said, answer):
    answer(words, said)


CALLS = [
    (lambda: forage.evaluate(5), "directory is a text or a path, not 5"),
    (lambda: forage.evaluate("run", episodes="a"), "episodes is a whole number, not 'a'"),
    (lambda: forage.evaluate_under("run", {"length": 1.0}), "grid is a dictionary of a list of numbers or None, not"),
    (lambda: forage.evaluate_under("run", {"length": ["a"]}), "grid is a dictionary of a list of numbers or None, not"),
    (lambda: forage.report(["run"], threshold="a"), "threshold is a number or None, not 'a'"),
    (lambda: forage.watch("run", episodes=1.5), "episodes is a whole number, not 1.5"),
]


@pytest.mark.parametrize(("call", "said"), CALLS, ids=[said[:50] for _, said in CALLS])
def test_from_python(call, said, refuse):
    refuse(call, said)
