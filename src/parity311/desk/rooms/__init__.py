"""The rooms of the desk: each a file with a `ROOM`, listed here in the order they are tried."""

from __future__ import annotations

from parity311.desk.rooms.entrance import ROOM as ENTRANCE
from parity311.desk.rooms.queue import ROOM as QUEUE
from parity311.desk.web import Room

ROOMS: tuple[Room, ...] = (ENTRANCE, QUEUE)
