"""Calendar: weekdays and dates."""

from __future__ import annotations

from datetime import date, timedelta
from typing import Any

import numpy as np

from forage.environments.text import answers
from forage.environments.text.draws import draw_integer, one
from forage.environments.text.problems import Family, Problem

DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")


def following(start: date, days: int) -> list[tuple[date, int]]:
    """Return the first days of the months passed on the way, each with the days that are left from there."""
    stops, here = [], start
    while True:
        year, month = (here.year + 1, 1) if here.month == 12 else (here.year, here.month + 1)
        first = date(year, month, 1)
        if (first - start).days > days:
            return stops
        stops.append((first, days - (first - start).days))
        here = first


class Calendar(Family):
    """Count days forward: to a weekday, to a date, between dates, or from one date's weekday to another's."""

    name = "calendar"
    levels = (
        "the weekday up to 6 days later",
        "the weekday 7 to 60 days later",
        "the date 20 to 100 days later",
        "the days between two dates of a year, 60 to 300 days apart",
        "the weekday of a date of the next two years, 300 to 700 days later",
    )
    measure = "days"
    bounded = True

    def make(self, generator: np.random.Generator, difficulty: int) -> Problem:
        days = draw_integer(generator, *((1, 6), (7, 60), (20, 100), (60, 300), (300, 700))[difficulty])
        start = date(draw_integer(generator, 2000, 2059), 1, 1) + timedelta(draw_integer(generator, 0, 364))
        if difficulty == 3:  # both in one year
            start = date(start.year, 1, 1) + timedelta(draw_integer(generator, 0, 364 - days))
        end = start + timedelta(days)
        weekday = DAYS[start.weekday()]
        if difficulty < 2:
            weekday = one(generator, DAYS)
            plural = "s" if days > 1 else ""
            prompt, answer = (
                f"Today is {weekday}. Which weekday is it in {days} day{plural}?",
                self._weekday_after(weekday, days),
            )
        elif difficulty == 2:
            prompt, answer = f"Which date is {days} days after {start}?", str(end)
        elif difficulty == 3:
            prompt, answer = f"How many days is it from {start} to {end}?", str(days)
        else:
            prompt, answer = f"{start} is a {weekday}. Which weekday is {end}?", self._weekday_after(weekday, days)
        data = {"level": difficulty, "start": str(start), "days": days, "weekday": weekday}
        return Problem(prompt, answer, data)

    def _weekday_after(self, weekday: str, days: int) -> str:
        """Return the weekday after this number of days."""
        return DAYS[(DAYS.index(weekday) + days) % 7]

    def size(self, problem: Problem) -> int:
        return problem.data["days"]

    def reason(self, problem: Problem) -> str:
        """Pass from month to month, and reduce the shift of a weekday modulo seven."""
        level, days, weekday = (problem.data[key] for key in ("level", "days", "weekday"))
        start, lines = date.fromisoformat(problem.data["start"]), []
        if level > 1:
            passed = [(first, days - left) for first, left in following(start, days)]
            lines += [f"{first} is {count} days later" for first, count in passed]
            last, count = passed[-1] if passed else (start, 0)
            if level == 2:
                lines.append(f"{days} - {count} = {days - count} days more")
            else:
                end = start + timedelta(days)
                lines.append(f"{end} is {(end - last).days} more, {count} + {(end - last).days} = {days}")
        if level != 2 and level != 3:
            lines.append(f"{days} = 7 * {days // 7} + {days % 7}, so {weekday} and {days % 7}")
        return ", ".join(lines) + "."

    def parse_answer(self, problem: Problem, found: str) -> Any | None:
        """Return a weekday, a date or a number of days, as the level asks."""
        level = problem.data["level"]
        if level == 3:
            return answers.integer(found)
        pattern = r"\d{4}-\d\d-\d\d" if level == 2 else "|".join(DAYS)
        return answers.matching(found, pattern)
