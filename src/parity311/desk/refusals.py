"""What the desk refuses, each with the status a browser or a program is told."""

from __future__ import annotations

from parity311.errors import Parity311Error


class DeskRefusal(Parity311Error):
    """A request that cannot be done; what was given, what is allowed, what to do next."""

    status = 400


class NoLoginError(DeskRefusal):
    """Nobody is logged in, or no longer."""

    status = 401


class NotAllowedError(DeskRefusal):
    """Somebody is, who may not do this."""

    status = 403


class NothingThereError(DeskRefusal):
    """No such page, case or account."""

    status = 404


class OvertakenError(DeskRefusal):
    """Somebody else was faster, or the case stands differently by now."""

    status = 409


class TooLargeError(DeskRefusal):
    """A body beyond what is taken."""

    status = 413


class TooManyError(DeskRefusal):
    """Too many tries in too short a time."""

    status = 429
