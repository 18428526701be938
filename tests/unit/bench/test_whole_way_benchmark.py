"""Where a run's time goes: parts add up over settings, compilations are counted."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import pytest

from parity311.bench import whole_way


def test_parts_add_up_over_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    stages = [
        {"name": "city, strong and scarce", "seconds": 3.0},
        {"name": "heat (strong participation, scarce capacity): training", "seconds": 10.0},
        {"name": "housing (strong participation, scarce capacity): training", "seconds": 20.0},
        {"name": "report", "seconds": 1.5},
    ]

    kept = SimpleNamespace(info={"stages": stages})

    def run(config: Any, **_: Any) -> dict[str, str]:
        jax.jit(lambda x: x * 3.14159 + config.seed)(jnp.arange(17.0)).block_until_ready()
        return {"run": "kept"}

    monkeypatch.setattr(whole_way, "run_pipeline", run)
    monkeypatch.setattr(whole_way, "open_run", lambda *_: kept)
    found = whole_way.bench_run("small", 7, runs=None, cities=None, progress=None)  # type: ignore[arg-type]
    assert found["by_part"] == {"training": 30.0, "city": 3.0, "report": 1.5}
    assert found["programs_compiled"] >= 1
    # None at all where a program lay in the cache that the workers of the suite share.
    assert 0.0 <= found["seconds_compiling"] < found["seconds"] + 0.1
    # Nothing is counted once the run is over.
    before = found["programs_compiled"]
    jax.jit(lambda x: x * 2.71828)(jnp.arange(19.0)).block_until_ready()
    assert found["programs_compiled"] == before
