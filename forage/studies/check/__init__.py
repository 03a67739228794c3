"""Checks of an environment before any training: its faults, and their remedies."""

from forage.studies.check.checking import check
from forage.studies.check.findings import Checked, Finding

__all__ = ["Checked", "Finding", "check"]
