"""The benchmark says why a ratio is missing, and divides the right way round."""

from __future__ import annotations

from pathlib import Path

import pytest

from parity311.bench import training as benchmark

SPEED = {"steps_per_s": 10.0, "steps_per_cpu_s": 20.0}


def test_a_peer_that_is_not_built_gives_null_and_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(benchmark, "ROOT", tmp_path)
    monkeypatch.setattr(benchmark, "_run_own", lambda name, n_steps: SPEED)
    found = benchmark.bench_train(500)
    assert set(found["ratios"]) == set(benchmark.RATIOS)
    assert set(found["ratios"].values()) == {None}
    assert "make peers" in found["peers"]["sb3"]["reason"]


def test_a_ratio_is_ours_over_theirs(monkeypatch: pytest.MonkeyPatch) -> None:
    peer = {
        "steps_per_s": 5.0,
        "steps_per_cpu_s": 4.0,
        "steps_per_cpu_s_without_environment": 8.0,
    }
    monkeypatch.setattr(benchmark, "_run_own", lambda name, n_steps: SPEED)
    monkeypatch.setattr(benchmark, "run_peer", lambda name, n_steps: peer)
    found = benchmark.bench_train(500)
    assert found["ratios"]["dqn_vs_sb3"] == 5.0
    assert found["ratios_without_peer_environment"]["dqn_vs_sb3"] == 2.5
    assert found["ratios_on_the_clock"]["dqn_vs_sb3"] == 2.0


def test_a_peer_that_fails_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    python = tmp_path / ".venvs" / "torch" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text("#!/bin/sh\necho broken pipe dream >&2\nexit 3\n")
    python.chmod(0o755)
    (tmp_path / ".venvs" / "torch" / ".installed").touch()
    (tmp_path / "benchmarks").mkdir()
    (tmp_path / "benchmarks" / "peers_speed.py").touch()
    monkeypatch.setattr(benchmark, "ROOT", tmp_path)
    assert "broken pipe dream" in benchmark.run_peer("sb3", 10)["reason"]
