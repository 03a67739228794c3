"""Tabular MDPs, and their exact values, policies and other solutions."""
