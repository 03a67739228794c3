"""Board games for two players, who move in turns."""
