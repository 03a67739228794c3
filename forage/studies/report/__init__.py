"""The report: one HTML file about one run or several, which needs no network (`forage report`).

`page.py` writes it, `charts.py` says what its charts show, `settings.py` what differs between runs, `texts.py` what
language policies said; `chart.js` draws the charts in the reader's browser, and `style.css` holds the colours, light
and dark.
"""

from forage.studies.report.page import report

__all__ = ["report"]
