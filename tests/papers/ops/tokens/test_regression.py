"""A*-PO's value and loss, by hand and against TRL's own numbers (`test_trl`)."""

import numpy as np
from test_trl import STORED, B, close

from forage_papers.ops.tokens import regression


def test_optimal_value_and_regression():
    """With temperature 1, V = log((1 + 3) / 2); with 1/2 the loss is (1/2 (-1 + 3) - (1 - 3/4))^2."""
    close(regression.optimal_value(np.log(np.float32([[1, 3]])), 1.0), [np.log(2)])
    found = regression.advantage_regression(*np.float32([[-1], [-3], [1], [0.75]]), 0.5)
    close(found, [0.75**2])


def test_the_loss_is_that_of_trl():
    loss = regression.advantage_regression(
        B["chosen"], B["reference_chosen"], B["reward"][:, 0], B["reward"].mean(1), 0.2
    )
    close(loss.mean(), STORED["regression"])
