"""Agents: what learns?"""
