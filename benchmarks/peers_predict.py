"""Decisions of an SB3 DQN policy, one by one: run by `parity311 bench recommend`, not by hand.

    .venvs/torch/bin/python benchmarks/peers_predict.py seen.npz 20000

The file holds observations (`seen`), ours decisions about them (`action`) and the network's arrays
(`weight_0`, `bias_0` …), which the policy is given, so that both decide alike. Prints one JSON
object: seconds a case for `predict` in a loop and for one batch, and the share decided alike.
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any

import gymnasium
import numpy as np

N_WARM = 100


class Spaces(gymnasium.Env[Any, Any]):
    """What a policy sees and may do; nobody plays it."""

    def __init__(self, n_features: int, n_actions: int) -> None:
        self.observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (n_features,), np.float32)
        self.action_space = gymnasium.spaces.Discrete(n_actions)


def make_policy(kept: Any) -> Any:
    """SB3's DQN with the network that was kept."""
    import torch  # pyright: ignore[reportMissingImports]
    from stable_baselines3 import DQN  # pyright: ignore[reportMissingImports]

    # Its maintainers' advice for small networks.
    torch.set_num_threads(1)
    n_layers = sum(name.startswith("weight_") for name in kept)
    sizes = [kept[f"bias_{layer}"].size for layer in range(n_layers)]
    spaces = Spaces(kept["seen"].shape[1], sizes[-1])
    policy = DQN(
        "MlpPolicy", spaces, buffer_size=1, device="cpu", policy_kwargs={"net_arch": sizes[:-1]}
    ).policy
    linear = [one for one in policy.q_net.q_net if isinstance(one, torch.nn.Linear)]
    with torch.no_grad():
        for layer, module in enumerate(linear):
            module.weight.copy_(torch.from_numpy(kept[f"weight_{layer}"].T.copy()))
            module.bias.copy_(torch.from_numpy(kept[f"bias_{layer}"].copy()))
    return policy


def main() -> None:
    """Time both ways to ask."""
    kept = dict(np.load(sys.argv[1]))
    policy, seen = make_policy(kept), kept["seen"]
    chosen = seen[: int(sys.argv[2])]
    for one in chosen[:N_WARM]:
        policy.predict(one, deterministic=True)
    begun, worked = time.perf_counter(), time.process_time()
    decided = [int(policy.predict(one, deterministic=True)[0]) for one in chosen]
    loop, cpu = time.perf_counter() - begun, time.process_time() - worked
    begun = time.perf_counter()
    together, _ = policy.predict(seen, deterministic=True)
    batch = time.perf_counter() - begun
    print(
        json.dumps(
            {
                "cases_in_loop": len(chosen),
                "loop_seconds_per_case": loop / len(chosen),
                "loop_cpu_seconds_per_case": cpu / len(chosen),
                "batch_seconds_per_case": batch / len(seen),
                "same_decisions": float(np.mean(together == kept["action"])),
                "same_in_loop": float(np.mean(np.array(decided) == kept["action"][: len(chosen)])),
            }
        )
    )


if __name__ == "__main__":
    main()
