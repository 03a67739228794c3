"""Small games for teams, with known best values."""
