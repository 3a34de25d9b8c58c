"""The report: one page that shows what runs did, what they cost, and whether their ledgers hold (docs/results.md)."""

from admmnet.report.html.page import Report, make_report

__all__ = ["Report", "make_report"]
