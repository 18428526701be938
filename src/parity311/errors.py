"""The exception tree.

Every error a user can cause is a `Parity311Error` and says, in one line, what was given, what is
allowed and what to do next. The command line prints the message and exits with code 2.

    Parity311Error
    ├── InputError        an argument outside what is allowed
    ├── RecordsError      a records folder, table or row that cannot be read or is invalid
    ├── FetchError        a server that does not answer, or not with what was asked for
    ├── RunError          a run folder that cannot be written, opened or rendered
    ├── BusyError         an output that another process is writing
    ├── EstimationError   too little or contradictory data for an estimate
    └── TrainingError     training cannot start or cannot go on
"""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


class Parity311Error(Exception):
    """An error with a message for the person who caused it."""


class InputError(Parity311Error):
    """An argument outside what is allowed."""


class RecordsError(Parity311Error):
    """A records folder, table or row that cannot be read, or is invalid."""


class FetchError(Parity311Error):
    """A server that does not answer, or not with what was asked for."""


class RunError(Parity311Error):
    """A run folder that cannot be written, opened or rendered."""


class BusyError(Parity311Error):
    """An output that another process is writing."""


class EstimationError(Parity311Error):
    """Too little, or contradictory, data for an estimate."""


class TrainingError(Parity311Error):
    """Training cannot start or cannot go on."""


def unknown_name(kind: str, given: str, allowed: Iterable[str]) -> InputError:
    """Error for a name that is not in a closed list, with the nearest name that is."""
    names = sorted(allowed)
    near = get_close_matches(given, names, n=1, cutoff=0.5)
    hint = f" Did you mean {near[0]!r}?" if near else ""
    return InputError(f"Unknown {kind} {given!r}; allowed: {', '.join(names)}.{hint}")
