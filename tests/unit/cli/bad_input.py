"""Nonsense for every option of every command, made from the commands themselves."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple, get_args, get_type_hints

import pytest
import typer

from parity311.cli import app, main

NUMBERS = ("-1", "99999999999999999999999", "x", "1.5")
FRACTIONS = ("nan", "-1", "x")
DAYS = ("2025-13-01", "yesterday")
TEXTS = ("no-such-thing", "'; DROP TABLE tracts; --")
FILE = "a-file"
"""A file in the folder the commands run in, where a folder is expected."""
PATHS = (FILE,)
VALUES = {int: NUMBERS, float: FRACTIONS, datetime: DAYS, Path: PATHS, str: TEXTS, list[str]: TEXTS}

BASE: dict[str, tuple[str, ...]] = {
    "train": ("boiler", "--example", "--steps", "1"),
    "sweep": ("boiler", "--steps", "1", "--preferences", "2", "--seeds", "1"),
    "frontier": ("boiler", "--city", "nowhere"),
    "backtest": ("boiler", "--records", "nowhere"),
    "parity": ("heat", "--city", "nowhere"),
    "audit": ("latest",),
    "explain": ("latest",),
    "documents": ("latest",),
    "report": ("latest",),
    "serve": ("--replay", "nowhere"),
    "backup": ("--out", "x.db", "--database", "nowhere.db"),
    "restore": ("nowhere.db",),
    "runs compare": ("latest", "nowhere"),
    "city build": ("--out", "x"),
    "city describe": ("nowhere",),
    "city export": ("nowhere", "--as", "nyc_311", "--out", "x"),
    "records import": ("nowhere.csv", "--out", "x"),
    "records check": ("nowhere",),
    "records locate": ("nowhere",),
    "records link": ("nowhere", "--out", "x"),
    "records compare": ("nowhere", "elsewhere"),
    "fetch nyc": ("--domains", "heat", "--out", "x"),
    "reporting validate": ("--city", "nowhere"),
    "policies propose": ("nowhere", "--audit", "nowhere.json", "--by", "A", "--reason", "why"),
    **{
        f"policies {name}": ("heat-1", "--by", "A", "--reason", "why")
        for name in ("shadow", "release", "retire")
    },
    **{
        f"policies {name}": ("heat", "--by", "A", "--reason", "why")
        for name in ("watch", "suspend", "resume", "rollback")
    },
    "policies compare": ("heat-1", "--records", "nowhere"),
    "cycle": ("heat", "--records", "nowhere", "--by", "A"),
    "watch": ("heat", "--records", "nowhere"),
    "feedback": ("boiler",),
    "weigh": ("nowhere",),
    "policies export": ("heat", "--out", "x"),
    "policies statement": ("nowhere",),
    "policies diff": ("nowhere", "elsewhere"),
    "sla measure": ("--records", "nowhere"),
    "sla promise": ("today", "--domain", "heat", "--city", "nowhere"),
    "sla design": ("--records", "nowhere", "--domain", "heat"),
    "reporting spatial": ("--tracts", "nowhere.csv", "--edges", "nowhere.csv"),
}
"""What a command needs beside the option that is tried; refused itself when it is opened."""

MORE = {
    ("city build", "--out"): (".", ".."),
    ("records import", "--out"): (".", ".."),
    ("train", "--preference"): ("nan,0,0,1", "1,1,1,1", "1,0,0"),
    ("train", "--set"): ("discount=2", "discount", "no_such=1", "hidden=[[1]]"),
    ("bench quality", "--city-seeds"): ("-1", "7,7,x", "1" * 30),
    ("parity", "--factors"): ("-1", "nan", "x"),
    ("leaderboard", "--seeds"): ("7-3", "2001", "1" * 30),
    ("leaderboard", "--policy"): ("no_such_module:decide", FILE),
    ("audit", "--tau"): ("0", "1"),
    ("sla design", "--target"): ("NO HEAT", "NO HEAT=soon", "NO HEAT=-3", "NO HEAT=400"),
    ("sla promise", "--years"): ("3",),
}
"""What only one option can refuse."""

FREE = {
    ("fetch nyc", "--app-token"),
    ("fetch nyc", "--census-key"),
    ("fetch nyc", "--out"),
    ("bench off-policy", "--setting"),
}
"""Options that take any text, or whose use begins with a download."""


class Try(NamedTuple):
    """One command line that must be refused."""

    command: str
    arguments: tuple[str, ...]

    def __str__(self) -> str:
        return " ".join((self.command, *self.arguments))


def commands(group: Any = None, path: tuple[str, ...] = ()) -> Iterator[tuple[str, Any]]:
    """Every command with its parameters."""
    group = group or typer.main.get_command(app)
    for name, command in sorted(group.commands.items()):
        if hasattr(command, "commands"):
            yield from commands(command, (*path, name))
        else:
            yield " ".join((*path, name)), command


def nonsense(kind: Any) -> tuple[str, ...]:
    """Values that an option must refuse, by the type of its parameter; none for a switch."""
    for known, values in VALUES.items():
        if known == kind or known in get_args(kind):
            return values
    return ()


def tries() -> Iterator[Try]:
    """Every option with every nonsense of its type, and every command with an option too many."""
    for name, command in commands():
        base = BASE.get(name, ())
        yield Try(name, (*base, "--no-such-option"))
        kinds = get_type_hints(inspect.unwrap(command.callback))
        for parameter in command.params:
            flags = [flag for flag in parameter.opts if flag.startswith("--")]
            if not flags or flags[0] == "--help" or (name, flags[0]) in FREE:
                continue
            for value in (*nonsense(kinds[parameter.name]), *MORE.get((name, flags[0]), ())):
                yield Try(name, (*base, flags[0], value))


def call(attempt: Try, monkeypatch: pytest.MonkeyPatch, folder: Path) -> int:
    """Exit code of a command line in this process."""
    monkeypatch.chdir(folder)
    monkeypatch.setattr(sys, "argv", ["parity311", *attempt.command.split(), *attempt.arguments])
    with pytest.raises(SystemExit) as ended:
        main()
    return int(ended.value.code or 0)
