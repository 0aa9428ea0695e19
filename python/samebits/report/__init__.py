"""`python -m samebits.report results.json`: figures of a report, as one page and as PNG files. Needs matplotlib."""
