"""The few exceptions that reach a person, each with the exit code of the command line."""

from __future__ import annotations


class AdmmnetError(Exception):
    """Base of every error whose message is meant for the user: cause and remedy in one or two lines."""

    exit_code = 3
    shared = False
    """Whether every process of the run raises it, so that one of them reports it."""


class CheckFailed(AdmmnetError):
    """A verification found a fault (exit code 1)."""

    exit_code = 1


class RequestError(AdmmnetError):
    """The request itself is wrong: a setting, a file, a graph, a data set (exit code 2)."""

    exit_code = 2


class MissingDataError(RequestError):
    """A data set is not there at all, which is no fault of its files."""


class RunError(AdmmnetError):
    """The run failed: an agent died, a solve missed its certificate (exit code 3)."""

    exit_code = 3


class CertificateError(RunError):
    """A solve missed its certificate; the figures in the message depend on the records."""


class BudgetError(AdmmnetError):
    """The budget affords no round at all (exit code 4)."""

    exit_code = 4
