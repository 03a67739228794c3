"""Board games for two players in turn."""
