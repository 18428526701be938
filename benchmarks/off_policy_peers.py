"""Set our off-policy estimators beside scope-rl's on the same log, given by file.

    python benchmarks/off_policy_peers.py [--json] [--peer-python .venvs/scope_rl/bin/python]

The log is written by this project (npz): rewards, actions, propensities, the target policy's
chances and the fitted action values. scope-rl reads the file in its own environment (`make
peers`) and answers with its estimators; what is printed are both values and their difference.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
SETTINGS = ("boiler", "snad", "drainage")
"""Settings of `parity311 bench off-policy` whose first log is compared."""
DISCOUNTS = (1.0, 0.95)
PEERS = {
    "ordinary": "TrajectoryWiseImportanceSampling",
    "per_decision": "PerDecisionImportanceSampling",
    "self_normalised": "SelfNormalizedTIS",
    "self_normalised_per_decision": "SelfNormalizedPDIS",
    "direct": "DirectMethod",
    "doubly_robust": "DoublyRobust",
    "weighted_doubly_robust": "SelfNormalizedDR",
}
"""Our estimator -> the class of scope-rl that computes the same. scope-rl takes fitted values as
given: the direct method is compared on the mean of the first states' values."""


def answer_as_peer(path: Path) -> dict[str, float]:
    """Estimates of scope-rl on a log; runs in its environment."""
    from scope_rl.ope import discrete  # pyright: ignore[reportMissingImports]

    log = np.load(path)
    n_steps = int(log["n_steps"])
    values = (log["q"] * log["target"]).sum(axis=1).reshape(-1, n_steps)
    given = {
        "step_per_trajectory": n_steps,
        "action": log["action"],
        "reward": log["reward"],
        "pscore": log["propensity"],
        "evaluation_policy_action_dist": log["target"],
        "state_action_value_prediction": log["q"],
        "initial_state_value_prediction": values[:, 0],
        "gamma": float(log["discount"]),
    }
    return {
        name: float(getattr(discrete, peer)().estimate_policy_value(**given))
        for name, peer in PEERS.items()
    }


def write_log(name: str, discount: float, path: Path) -> dict[str, float]:
    """Write one log for the peer, and give our estimates on it."""
    from parity311.evaluation.off_policy import weights
    from parity311.evaluation.off_policy.estimate import (
        cross_fitted_action_values,
        cross_fitted_values,
        doubly_robust,
        weighted_doubly_robust,
    )
    from parity311.evaluation.off_policy.fitted_q import make_basis
    from parity311.evaluation.off_policy.policies import action_chances
    from parity311.evaluation.off_policy.simulate import write_logs
    from parity311.evaluation.off_policy.validate import SETTINGS as KNOWN
    from parity311.evaluation.off_policy.validate import prepare

    setting = next(one for one in KNOWN if one.name == name)
    ready = prepare(setting)
    logs = write_logs(
        ready.played, ready.behaviour, n_logs=1, n_episodes=setting.n_episodes, seed=831
    )
    target = action_chances(ready.target, logs.observation, logs.n_actions)
    basis = make_basis(logs.observation)
    every = cross_fitted_action_values(logs, basis, target, discount)[0, ..., 0]
    q, v = cross_fitted_values(logs, basis, target, discount)
    cumulative = weights.cumulative_weights(weights.decision_ratios(logs, target, logs.propensity))
    np.savez(
        path,
        n_steps=setting.n_steps,
        discount=discount,
        action=logs.action[0].ravel(),
        reward=logs.outcome[0, ..., 0].ravel(),
        propensity=logs.propensity[0].ravel(),
        target=target[0].reshape(-1, logs.n_actions),
        q=every.reshape(-1, logs.n_actions),
    )
    found = {
        "ordinary": weights.ordinary(logs, cumulative, discount),
        "per_decision": weights.per_decision(logs, cumulative, discount),
        "self_normalised": weights.self_normalised(logs, cumulative, discount),
        "self_normalised_per_decision": weights.self_normalised_per_decision(
            logs, cumulative, discount
        ),
        "direct": v[:, :, 0],
        "doubly_robust": doubly_robust(logs, cumulative, q, v, discount),
        "weighted_doubly_robust": weighted_doubly_robust(logs, cumulative, q, v, discount),
    }
    return {name: float(values[0, :, 0].mean()) for name, values in found.items()}


def compare(peer_python: Path) -> list[dict[str, Any]]:
    """Both answers on every log, one row an estimator."""
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for name in SETTINGS:
            for discount in DISCOUNTS:
                path = Path(folder) / "log.npz"
                ours = write_log(name, discount, path)
                answer = subprocess.run(
                    [str(peer_python), __file__, "--peer", str(path)],
                    capture_output=True,
                    text=True,
                    check=True,
                )
                theirs = json.loads(answer.stdout.strip().splitlines()[-1])
                for estimator, value in ours.items():
                    other = theirs[estimator]
                    rows.append(
                        {
                            "setting": name,
                            "discount": discount,
                            "estimator": estimator,
                            "peer": f"scope_rl.ope.discrete.{PEERS[estimator]}",
                            "ours": value,
                            "theirs": other,
                            "difference": value - other,
                            "relative_difference": abs(value - other) / max(abs(other), 1e-12),
                        }
                    )
    return rows


def main() -> None:
    """Compare and print, or answer as the peer."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--peer", type=Path, help="answer for this log, in the peer's environment")
    parser.add_argument(
        "--peer-python", type=Path, default=ROOT / ".venvs" / "scope_rl" / "bin" / "python"
    )
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    if given.peer is not None:
        print(json.dumps(answer_as_peer(given.peer)))
        return
    rows = compare(given.peer_python)
    if given.json:
        print(json.dumps(rows, indent=1))
        return
    for row in rows:
        print(
            f"{row['setting']:10} γ {row['discount']:.2f} {row['estimator']:30} "
            f"{row['ours']:+.6f} {row['theirs']:+.6f} ({row['relative_difference']:.1e})"
        )


if __name__ == "__main__":
    main()
