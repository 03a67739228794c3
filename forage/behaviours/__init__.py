"""Behaviours: how is an action chosen while learning?"""
