"""A run takes its domains through a city of every scenario, or through one folder of records."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from threading import Barrier, Event, Lock
from time import monotonic, sleep
from types import SimpleNamespace
from typing import Any

import pytest

from parity311.pipelines import run as whole_way
from parity311.pipelines.run import RunConfig, run_pipeline
from parity311.records.store import Records, open_records


class Taken(Exception):
    """Everything was taken as far as it is asked here."""


def take_with(
    take: Callable[..., Any],
    domains: tuple[str, ...],
    records: Path,
    place: Path,
    monkeypatch: pytest.MonkeyPatch,
    packages: Callable[..., Any] = lambda *_: {},
) -> list[tuple[str, str]]:
    """Run with these domains, each taken by a function of ours; which cities were asked for."""
    asked: list[tuple[str, str]] = []

    def ensure(config: RunConfig, participation: str, capacity: str, *_: Any) -> Records:
        asked.append((participation, capacity))
        return open_records(records)

    monkeypatch.setattr(whole_way, "ensure_city", ensure)
    # Cities come from `ensure` here: nothing is to be built beside.
    monkeypatch.setattr(whole_way, "building_beside", lambda *_: nullcontext(lambda: None))
    monkeypatch.setattr(whole_way, "add_city", lambda run, records: None)
    monkeypatch.setattr(whole_way, "take_domain", take)
    monkeypatch.setattr(whole_way, "keep_packages", packages)
    with pytest.raises(Taken):
        run_pipeline(
            RunConfig(domains=domains), runs=place / "runs", cities=place,
            progress=lambda *_: None,
        )  # fmt: skip
    return asked


@pytest.mark.parametrize("n_domains", [1, 2])
def test_every_domain_meets_every_scenario(
    n_domains: int, tiny_records: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken: Counter[str] = Counter()
    lock = Lock()

    def take(domain: Any, *_: Any) -> Any:
        with lock:
            taken[domain.slug] += 1
        if taken.total() == n_domains * len(whole_way.SCENARIOS):
            raise Taken
        return SimpleNamespace(trained=None, world=None)

    domains = ("boiler", "heat")[:n_domains]
    asked = take_with(take, domains, tiny_records, tmp_path, monkeypatch)
    assert asked == [("strong", "scarce"), ("measured", "calibrated")]
    assert taken == dict.fromkeys(domains, len(whole_way.SCENARIOS))


def test_domains_are_taken_side_by_side_and_stop_together(
    tiny_records: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    both, told = Barrier(2), []

    def take(domain: Any, records: Records, config: RunConfig, progress: Any, stage: Any) -> None:
        # Neither gets past this without the other.
        both.wait(timeout=60)
        if domain.slug == "heat":
            raise Taken
        for so_far in range(6_000):
            progress("boiler", so_far, 6_000)
            told.append(so_far)
            sleep(0.01)

    take_with(take, ("boiler", "heat"), tiny_records, tmp_path, monkeypatch)
    assert len(told) < 6_000


def test_a_later_source_follows_stage_by_stage_and_domains_share_the_time(
    tiny_records: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a source compiles is there when the next one of its domain comes to that stage."""
    seen: list[tuple[str, int, str]] = []
    lock, turns, second = Lock(), Counter[str](), Event()

    def take(
        domain: Any, records: Records, config: RunConfig, progress: Any, stage: Any
    ) -> SimpleNamespace:
        source = None
        for name in ("training", "comparison"):
            with stage(name):
                # Both are called at once; which of them is the first shows where one may go on.
                with lock:
                    if source is None:
                        source = turns[domain.slug]
                        turns[domain.slug] += 1
                seen.append((domain.slug, source, f"{name} begins"))
                if (source, name) == (0, "comparison"):
                    # The first is still at it when the second has begun; nobody waits for its end.
                    assert second.wait(timeout=60)
                if (source, name) == (1, "training"):
                    second.set()
                seen.append((domain.slug, source, f"{name} ends"))
        return SimpleNamespace(trained=None, world=None)

    def packages(*_: Any) -> dict[float, Path]:
        if turns["boiler"] == 2 and seen[-1][1:] == (1, "comparison ends"):
            raise Taken
        return {}

    take_with(take, ("boiler",), tiny_records, tmp_path, monkeypatch, packages)
    for name in ("training", "comparison"):
        assert seen.index(("boiler", 0, f"{name} ends")) < seen.index(
            ("boiler", 1, f"{name} begins")
        )
    begun = seen.index(("boiler", 1, "training begins"))
    assert begun < seen.index(("boiler", 0, "comparison ends"))


def test_who_waits_for_a_source_that_failed_does_not_wait_for_ever(
    tiny_records: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    called, entered = Counter[str](), Counter[str]()

    def take(domain: Any, records: Records, config: RunConfig, progress: Any, stage: Any) -> None:
        called[domain.slug] += 1
        with stage("training"):
            entered[domain.slug] += 1
            while called.total() < 2:
                sleep(0.01)
            raise Taken

    take_with(take, ("boiler",), tiny_records, tmp_path, monkeypatch)
    # The second never entered a stage that the first never left.
    assert (called.total(), entered.total()) == (2, 1)


def test_other_cities_are_built_beside_the_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    there = whole_way.city_folder(RunConfig(), "strong", "scarce", tmp_path)
    there.mkdir()
    # A builder that stands in for the command: it says what it was asked for.
    script = tmp_path / "build"
    script.write_text('#!/bin/sh\nmkdir -p "$6"; echo "$*" > "$6/asked"\n')
    script.chmod(0o755)
    monkeypatch.setattr(whole_way.sys, "executable", str(script))
    monkeypatch.setattr(whole_way.os, "cpu_count", lambda: 2)
    with whole_way.building_beside(RunConfig(seed=3), whole_way.SCENARIOS, tmp_path) as wait:
        wait()
        for pair in whole_way.SCENARIOS:
            said = (whole_way.city_folder(RunConfig(seed=3), *pair, tmp_path) / "asked").read_text()
            assert "--seed 3" in said
            assert f"--participation {pair[0]} --capacity {pair[1]}" in said
    with whole_way.building_beside(RunConfig(), whole_way.SCENARIOS[:1], tmp_path) as wait:
        wait()
    assert list(there.iterdir()) == []


def test_cities_beside_are_not_left_at_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = tmp_path / "build"
    script.write_text("#!/bin/sh\nexec sleep 60\n")
    script.chmod(0o755)
    monkeypatch.setattr(whole_way.sys, "executable", str(script))
    monkeypatch.setattr(whole_way.os, "cpu_count", lambda: 2)
    began = monotonic()
    with (
        pytest.raises(Taken),
        whole_way.building_beside(RunConfig(), whole_way.SCENARIOS, tmp_path / "cities"),
    ):
        raise Taken
    assert monotonic() - began < 30
