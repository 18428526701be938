"""The house stands within the limits we set ourselves, and its measures see what they look for."""

from __future__ import annotations

from pathlib import Path

import pytest
from tools import house

pytestmark = pytest.mark.slow


@pytest.mark.slow
def test_the_house_is_within_its_limits() -> None:
    found = house.measure()
    assert found.keys() == house.LIMITS.keys()
    for name, value in found.items():
        assert value <= house.LIMITS[name], f"{name}: {value} is above {house.LIMITS[name]}"


@pytest.fixture
def modules(tmp_path: Path) -> dict[str, house.Module]:
    """A crooked house: a cycle through a lazy import, two classes of one name, an idle function."""
    texts = {
        "records/cases.py": "class Case: ...\n\ndef read_cases():\n    return Case()\n",
        "report/audit_page.py": """
from parity311.records.cases import read_cases

class Case: ...

def write_page():
    return read_cases(), Case()
""",
        "audit/assess.py": """
def assess():
    from parity311.audit.run import start
    return start()

def nobody_needs_this(): ...

def named_by_a_job(): ...

@app.command("assess")
def handed_to_the_command_line(): ...
""",
        "audit/run.py": "from parity311.audit.assess import assess\n\nstart = assess\n"
        "JOB = 'parity311.audit.assess:named_by_a_job'\nstart(JOB)\n",
    }
    for name, text in texts.items():
        path = tmp_path / "src" / "parity311" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return house.read_modules(tmp_path)


def test_a_cycle_through_a_lazy_import_is_seen(modules: dict[str, house.Module]) -> None:
    assert house.cycles(modules) == [["parity311.audit.assess", "parity311.audit.run"]]
    assert modules["parity311.audit.assess"].lazy == {"parity311.audit.run"}


def test_one_name_for_two_things_is_seen(modules: dict[str, house.Module]) -> None:
    places = ["parity311.records.cases", "parity311.report.audit_page"]
    assert house.classes_used_twice(modules) == {"Case": places}


def test_only_the_contracts_words_may_repeat_in_domains() -> None:
    found = {
        name: house.read_module(name, "class State: ...\n\nclass Office: ...\n")
        for name in ("parity311.domains.heat", "parity311.domains.crane")
    }
    assert list(house.classes_used_twice(found)) == ["Office"]


def test_a_module_for_one_other_is_seen(modules: dict[str, house.Module]) -> None:
    assert "parity311.records.cases" in house.single_importers(modules)


def test_a_name_nobody_needs_is_seen(modules: dict[str, house.Module], tmp_path: Path) -> None:
    idle = house.names_nobody_imports(modules, tmp_path)
    assert idle["parity311.audit.assess"] == {"nobody_needs_this"}
    assert "parity311.records.cases" not in idle


def test_what_an_entry_names_is_used() -> None:
    """The words of an agent's ENTRY count; the same words elsewhere do not."""
    text = "{name} = AgentEntry(maker='make_it')\n\ndef make_it(): ...\n"
    used = [
        house.read_module("agents.it", text.format(name=name)).used for name in ("ENTRY", "OTHER")
    ]
    assert ["make_it" in words for words in used] == [True, False]
