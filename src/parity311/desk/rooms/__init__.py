"""The rooms of the desk: each a file with a `ROOM`, listed here in the order they are tried."""

from __future__ import annotations

from parity311.desk.rooms.audit import ROOM as AUDIT
from parity311.desk.rooms.entrance import ROOM as ENTRANCE
from parity311.desk.rooms.exchange import ROOM as EXCHANGE
from parity311.desk.rooms.office import ROOM as OFFICE
from parity311.desk.rooms.open311 import ROOM as OPEN311
from parity311.desk.rooms.operation import ROOM as OPERATION
from parity311.desk.rooms.public import ROOM as PUBLIC
from parity311.desk.rooms.queue import ROOM as QUEUE
from parity311.desk.rooms.records import ROOM as RECORDS
from parity311.desk.rooms.voices import ROOM as VOICES
from parity311.desk.web import Room

ROOMS: tuple[Room, ...] = (
    ENTRANCE, PUBLIC, QUEUE, OFFICE, AUDIT, RECORDS, VOICES, EXCHANGE, OPEN311, OPERATION
)  # fmt: skip
