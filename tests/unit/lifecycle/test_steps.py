"""Steps that are done once, and again where anything they rest on is another."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from parity311.lifecycle import steps as steps_module
from parity311.lifecycle.steps import RECORD, DoneStep, Steps, read_step


class Kitchen:
    """Counts how often a step is made."""

    def __init__(self, root: Path) -> None:
        self.root, self.n_made = root, 0

    def make(self, folder: Path) -> dict[str, Any]:
        """Write one file."""
        self.n_made += 1
        (folder / "bread").write_text("bread")
        return {"weight": 500}

    def take(self, *after: DoneStep, **inputs: Any) -> DoneStep:
        """The step with these inputs, by steps that know nothing of earlier ones."""
        return Steps(self.root).take("bake", inputs, self.make, after=after)


@pytest.fixture
def kitchen(tmp_path: Path) -> Kitchen:
    return Kitchen(tmp_path)


def test_a_step_is_done_once(kitchen: Kitchen) -> None:
    first, second = kitchen.take(flour=1), kitchen.take(flour=1)
    assert (first.is_new, second.is_new, kitchen.n_made) == (True, False, 1)
    assert first.result == second.result == {"weight": 500}
    assert list(second.describe()["files"]) == ["bread"]


@pytest.mark.parametrize("what", ["input", "before", "code"])
def test_another_input_is_another_step(
    kitchen: Kitchen, what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = kitchen.take(flour=1)
    if what == "code":
        monkeypatch.setattr(steps_module, "hash_source", lambda: "other")
    after = [first] if what == "before" else []
    second = kitchen.take(*after, flour=2 if what == "input" else 1)
    assert second.is_new
    assert second.key != first.key


@pytest.mark.parametrize("damage", ["file", "record", "missing", "killed"])
def test_what_is_not_whole_is_done_again(kitchen: Kitchen, damage: str) -> None:
    first = kitchen.take(flour=1)
    if damage == "file":
        (first.folder / "bread").write_text("stone")
    elif damage == "missing":
        (first.folder / "bread").unlink()
    elif damage == "killed":
        (first.folder / RECORD).unlink()
    else:
        record = first.folder / RECORD
        record.write_text(record.read_text().replace("500", "900"))
    assert read_step(first.folder) is None
    again = kitchen.take(flour=1)
    assert again.is_new
    assert again.key == first.key
    assert (again.folder / "bread").read_text() == "bread"


def test_what_no_longer_stands_is_done_again(kitchen: Kitchen) -> None:
    steps = Steps(kitchen.root)
    for eaten, n_made in ((True, 1), (False, 1), (True, 2)):
        found = steps.take("bake", {}, kitchen.make, stands=lambda result, gone=eaten: not gone)
        assert (found.result, kitchen.n_made) == ({"weight": 500}, n_made)
