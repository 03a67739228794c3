"""Small games for teams whose best values are known."""
