"""Speed of one peer library on the boiler example: run by `parity311 bench train`, not by hand.

    .venvs/torch/bin/python benchmarks/peers_speed.py sb3 3000

Prints one JSON object: steps (or updates) a second, and the environment's own share.
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any

import numpy as np

EPISODE = 168


def make_environment() -> Any:
    """The boiler example through the adapter that users have."""
    import gymnasium

    import parity311  # noqa: F401  makes the environments known
    from parity311.environments import environment_id

    return gymnasium.make(environment_id("boiler"))


class Watch:
    """Seconds on the clock and on the processor; on a busy machine only the second says much."""

    def __init__(self) -> None:
        self.began = (time.perf_counter(), time.process_time())

    def read(self) -> tuple[float, float]:
        """Both since it was made."""
        return time.perf_counter() - self.began[0], time.process_time() - self.began[1]


def time_environment(n_steps: int) -> tuple[float, float]:
    """Seconds that the environment alone takes for this many steps."""
    environment = make_environment()
    environment.reset(seed=0)
    environment.step(0)
    watch = Watch()
    for step in range(n_steps):
        _, _, terminated, truncated, _ = environment.step(step % 2)
        if terminated or truncated:
            environment.reset()
    return watch.read()


def run_sb3(
    n_steps: int, hidden: tuple[int, ...] = (128, 128), discount: float = 0.99
) -> tuple[float, float]:
    """Seconds of stable-baselines3's DQN with the paper's hyper-parameters, an update a step."""
    import torch  # pyright: ignore[reportMissingImports]
    from stable_baselines3 import DQN  # pyright: ignore[reportMissingImports]

    # Its maintainers' advice for small networks.
    torch.set_num_threads(1)
    agent = DQN(
        "MlpPolicy", make_environment(), learning_rate=1e-3, buffer_size=50_000, batch_size=64,
        learning_starts=64, train_freq=1, gradient_steps=1, target_update_interval=500,
        gamma=discount, exploration_fraction=0.5, exploration_final_eps=0.05, max_grad_norm=10.0,
        policy_kwargs={"net_arch": list(hidden)}, seed=0, device="cpu",
    )  # fmt: skip
    agent.learn(300)
    watch = Watch()
    agent.learn(n_steps, reset_num_timesteps=False)
    return watch.read()


def run_tianshou(n_steps: int) -> tuple[float, float]:
    """Seconds of tianshou's REINFORCE (it has no baseline): an update every 168 steps."""
    import torch  # pyright: ignore[reportMissingImports]
    from tianshou.algorithm import Reinforce  # pyright: ignore[reportMissingImports]
    from tianshou.algorithm.modelfree.reinforce import (  # pyright: ignore[reportMissingImports]
        DiscreteActorPolicy,
    )
    from tianshou.algorithm.optim import (  # pyright: ignore[reportMissingImports]
        AdamOptimizerFactory,
    )
    from tianshou.data import Collector, VectorReplayBuffer  # pyright: ignore[reportMissingImports]
    from tianshou.env import DummyVectorEnv  # pyright: ignore[reportMissingImports]
    from tianshou.trainer import OnPolicyTrainerParams  # pyright: ignore[reportMissingImports]
    from tianshou.utils.net.common import Net  # pyright: ignore[reportMissingImports]
    from tianshou.utils.net.discrete import DiscreteActor  # pyright: ignore[reportMissingImports]

    torch.set_num_threads(1)
    environments = DummyVectorEnv([make_environment])
    observed, actions = environments.observation_space[0], environments.action_space[0]
    net = Net(state_shape=observed.shape, hidden_sizes=[128, 128])
    actor = DiscreteActor(preprocess_net=net, action_shape=actions.n, softmax_output=False)
    policy = DiscreteActorPolicy(actor=actor, action_space=actions)
    algorithm = Reinforce(policy=policy, gamma=0.99, optim=AdamOptimizerFactory(lr=3e-4))
    collector = Collector(algorithm, environments, VectorReplayBuffer(EPISODE * 4, 1))

    def learn(n: int) -> None:
        algorithm.run_training(
            OnPolicyTrainerParams(
                max_epochs=1, epoch_num_steps=n, training_collector=collector,
                collection_step_num_env_steps=EPISODE, batch_size=None,
                update_step_num_repetitions=1, show_progress=False, verbose=False,
            )
        )  # fmt: skip

    learn(EPISODE)
    watch = Watch()
    learn(n_steps)
    return watch.read()


def run_d3rlpy(n_steps: int) -> tuple[float, float]:
    """Seconds of d3rlpy's DiscreteCQL for this many updates from a log of random decisions."""
    import d3rlpy  # pyright: ignore[reportMissingImports]

    rng = np.random.default_rng(0)
    n = 20_000
    dataset = d3rlpy.dataset.MDPDataset(
        observations=rng.normal(size=(n, 6)).astype(np.float32),
        actions=rng.integers(0, 2, (n, 1)),
        rewards=rng.normal(size=(n, 1)).astype(np.float32),
        terminals=(np.arange(n) % 1000 == 999).astype(np.float32),
        action_space=d3rlpy.constants.ActionSpace.DISCRETE,
        action_size=2,
    )
    encoder = d3rlpy.models.VectorEncoderFactory([128, 128])
    learner = d3rlpy.algos.DiscreteCQLConfig(
        learning_rate=1e-3, batch_size=64, gamma=0.99, alpha=0.1, target_update_interval=500,
        encoder_factory=encoder,
    ).create(device=False)  # fmt: skip
    options: dict[str, Any] = {"show_progress": False, "logger_adapter": None}
    options["logger_adapter"] = d3rlpy.logging.NoopAdapterFactory()
    learner.fit(dataset, n_steps=100, n_steps_per_epoch=100, **options)
    watch = Watch()
    learner.fit(dataset, n_steps=n_steps, n_steps_per_epoch=n_steps, **options)
    return watch.read()


RUNNERS = {"sb3": run_sb3, "tianshou": run_tianshou, "d3rlpy": run_d3rlpy}


def main() -> None:
    """Run the peer that is named, and say how fast it was."""
    name, n_steps = sys.argv[1], int(sys.argv[2])
    settings = json.loads(sys.argv[3]) if len(sys.argv) > 3 else {}
    seconds = RUNNERS[name](n_steps, **settings)
    apart = (0.0, 0.0) if name == "d3rlpy" else time_environment(n_steps)
    print(
        json.dumps(
            {
                "steps_per_s": n_steps / seconds[0],
                "steps_per_cpu_s": n_steps / seconds[1],
                "environment_cpu_s": apart[1],
                "steps_per_cpu_s_without_environment": n_steps / max(seconds[1] - apart[1], 1e-9),
            }
        )
    )


if __name__ == "__main__":
    main()
