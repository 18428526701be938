"""The exception tree.

Every error a user can cause is a `Parity311Error` and says, in one line, what was given, what is
allowed and what to do next. The command line prints the message and exits with code 2.

    Parity311Error
    ├── InputError        an argument outside what is allowed
    ├── RecordsError      a records folder, table or row that cannot be read or is invalid
    ├── FetchError        a server that does not answer, or not with what was asked for
    ├── RunError          a run folder that cannot be written, opened or rendered
    ├── BusyError         an output that another process is writing
    ├── RegistryError     an act on a policy that is refused, or a registry that cannot be trusted
    ├── EstimationError   too little or contradictory data for an estimate
    └── TrainingError     training cannot start or cannot go on
"""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


class Parity311Error(Exception):
    """An error with a message for the person who caused it.

    Examples
    --------
    >>> try:
    ...     parity311.get_domain("boilr")
    ... except parity311.Parity311Error as error:
    ...     print(str(error)[-22:])
    Did you mean 'boiler'?
    """


class InputError(Parity311Error):
    """An argument outside what is allowed.

    Examples
    --------
    >>> parity311.AuditSpec(tau=2.0)
    Traceback (most recent call last):
    parity311.errors.InputError: tau is 2.0; it must lie between 0 and 1. Change it.
    """


class RecordsError(Parity311Error):
    """A records folder, table or row that cannot be read, or is invalid.

    Examples
    --------
    >>> parity311.open_records("cities/nowhere")
    Traceback (most recent call last):
    parity311.errors.RecordsError: There is no folder cities/nowhere; name one that ...
    """


class FetchError(Parity311Error):
    """A server that does not answer, or not with what was asked for."""


class RunError(Parity311Error):
    """A run folder that cannot be written, opened or rendered.

    Examples
    --------
    >>> parity311.open_run("latest", "nowhere")
    Traceback (most recent call last):
    parity311.errors.RunError: No run 'latest': nowhere holds no complete run; make one first.
    """


class BusyError(Parity311Error):
    """An output that another process is writing.

    Examples
    --------
    >>> from parity311.storage.locks import one_writer
    >>> with one_writer(records.folder):  # as another process would
    ...     parity311.build_city(records.folder, overwrite=True)
    Traceback (most recent call last):
    parity311.errors.BusyError: Another process is writing cities/...; wait until ...
    """


class RegistryError(Parity311Error):
    """An act on a policy that is refused, or a registry that cannot be opened or trusted."""


class UnreachableError(RegistryError):
    """A database that does not answer, or not now; an act that was cut off is undone whole."""


class EstimationError(Parity311Error):
    """Too little, or contradictory, data for an estimate.

    Examples
    --------
    >>> parity311.calibrate(parity311.open_records("records/nyc"), "heat")
    Traceback (most recent call last):
    parity311.errors.EstimationError: None of 20 incidents was reported a second time while ...
    """


class TrainingError(Parity311Error):
    """Training cannot start or cannot go on.

    Examples
    --------
    >>> parity311.train(boiler, params, "dqn", [(1.0, 1.0, 0.0, 0.0)], [0], 8)
    Traceback (most recent call last):
    parity311.errors.TrainingError: Preferences [[1.0, 1.0, 0.0, 0.0]] must be ...
    """


def unknown_name(kind: str, given: str, allowed: Iterable[str]) -> InputError:
    """Error for a name that is not in a closed list, with the nearest name that is."""
    names = sorted(allowed)
    near = get_close_matches(given, names, n=1, cutoff=0.5)
    hint = f" Did you mean {near[0]!r}?" if near else ""
    return InputError(f"Unknown {kind} {given!r}; allowed: {', '.join(names)}.{hint}")
