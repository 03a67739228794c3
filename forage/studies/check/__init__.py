"""Checks of an environment before any training: its faults, and their remedies."""

from forage.studies.check.checking import check
from forage.studies.check.findings import CheckReport, Finding

__all__ = ["CheckReport", "Finding", "check"]
