"""Memory in TD3 where velocities are hidden: Yang and Nguyen (2021)."""

from __future__ import annotations

from forage_papers.claims.recurrent_sac import with_memory

CLAIM = with_memory("TD3")
