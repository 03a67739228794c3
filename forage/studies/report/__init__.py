"""The report: one HTML file about one run or several that needs no network (`forage report`).

`page.py` writes it, with the data of its charts from `charts.py`, the settings that differ between runs from
`settings.py`, and the texts of language policies from `texts.py`; `chart.js` draws the charts in the reader's browser,
and `style.css` holds the colours, light and dark.
"""

from forage.studies.report.page import report

__all__ = ["report"]
