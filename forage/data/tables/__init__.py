"""Tables with a row for each transition, as people export them: their profile, their description and their reading."""
