"""Claims: a measure differs from others by its contents."""

import small

from forage.studies.claims import running
from forage.studies.claims.claim import late

small.keep_compiled()


def test_a_measure_is_told_from_others_by_what_it_says():
    from forage_papers.claims import domain_randomisation as lengths

    assert running.recipe(late("q", 0.5)) == running.recipe(late("q", 0.5))
    assert running.recipe(late("q", 0.5)) != running.recipe(late("q", 0.1))
    assert str(lengths.LENGTHS) in running.recipe(lengths.outside)
