"""Starts: where does an episode begin?"""
