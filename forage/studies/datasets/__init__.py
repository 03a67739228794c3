"""Data sets that Forage's own agents make, and what a data set holds: `forage data make` and `forage data show`."""

from forage.studies.datasets.make import TIERS, make
from forage.studies.datasets.show import Shown, show

__all__ = ["TIERS", "Shown", "make", "show"]
