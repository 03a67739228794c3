"""Data sets made by Forage's own agents, and descriptions of data sets: `forage data make` and `forage data show`."""

from forage.studies.datasets.make import TIERS, make
from forage.studies.datasets.show import DatasetDescription, show_data_set

__all__ = ["TIERS", "DatasetDescription", "make", "show_data_set"]
