"""Audits: lower bounds on epsilon from trials with and without a canary, beside what is proven.

``admmnet.privacy.ledger.audit`` is something else: it reads ledgers back.
"""
