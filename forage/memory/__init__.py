"""Memory: what is kept, and what is replayed?"""
