"""Checks of an environment before anything is trained in it: what is wrong, and how to mend it."""

from forage.studies.check.checking import check
from forage.studies.check.findings import Checked, Finding

__all__ = ["Checked", "Finding", "check"]
