"""parity311: route municipal complaints with equitable coverage as an objective of its own.

The names of ``__all__`` are public: documented with examples in docs/reference/python.md, and
changed only with a line in the changelog. Everything else may change without notice. A name is
imported when it is first used, so that `import parity311` stays light.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from parity311.environments import register_with_gymnasium
from parity311.version import __version__

if TYPE_CHECKING:
    from parity311.api import build_city, compare, frontier, run
    from parity311.audit.spec import AuditSpec
    from parity311.domains import all_domains, get_domain
    from parity311.environments import environment_id
    from parity311.errors import (
        BusyError,
        EstimationError,
        InputError,
        Parity311Error,
        RecordsError,
        RunError,
        TrainingError,
    )
    from parity311.estimation.world import World, make_world
    from parity311.evaluation.rollout import Contender, evaluate
    from parity311.feeds.importing import import_records
    from parity311.feeds.work import ImportOptions
    from parity311.mdp.check import check_domain
    from parity311.mdp.contract import Domain
    from parity311.mdp.equity import EquityTerm
    from parity311.mdp.harness import Harness
    from parity311.pipelines.audit import audit_run
    from parity311.pipelines.audit_records import audit_records
    from parity311.pipelines.frontier import FrontierConfig
    from parity311.pipelines.run import RunConfig
    from parity311.records.quality import check_records
    from parity311.records.store import Records, open_records
    from parity311.report.folder import Run, list_runs, open_run
    from parity311.reporting.calibration import Calibration, calibrate
    from parity311.serving.policy import LoadedPolicy, load_policy
    from parity311.training import train, with_equity
    from parity311.training.loop import Trained
    from parity311.training.saving import save_policy, save_rule

# The order of the data, which is also that of the reference.
__all__ = [  # noqa: RUF022
    "__version__",
    "build_city",
    "open_records",
    "Records",
    "import_records",
    "ImportOptions",
    "check_records",
    "calibrate",
    "Calibration",
    "all_domains",
    "get_domain",
    "Domain",
    "check_domain",
    "Harness",
    "EquityTerm",
    "environment_id",
    "make_world",
    "World",
    "train",
    "Trained",
    "with_equity",
    "save_policy",
    "save_rule",
    "load_policy",
    "LoadedPolicy",
    "compare",
    "evaluate",
    "Contender",
    "audit_records",
    "audit_run",
    "AuditSpec",
    "open_run",
    "list_runs",
    "Run",
    "run",
    "RunConfig",
    "frontier",
    "FrontierConfig",
    "Parity311Error",
    "InputError",
    "RecordsError",
    "RunError",
    "BusyError",
    "EstimationError",
    "TrainingError",
]

_NAMES_OF = {
    "api": ("build_city", "compare", "frontier", "run"),
    "audit.spec": ("AuditSpec",),
    "domains": ("all_domains", "get_domain"),
    "environments": ("environment_id",),
    "errors": (
        "BusyError", "EstimationError", "InputError", "Parity311Error", "RecordsError", "RunError",
        "TrainingError",
    ),
    "estimation.world": ("World", "make_world"),
    "evaluation.rollout": ("Contender", "evaluate"),
    "feeds.importing": ("import_records",),
    "feeds.work": ("ImportOptions",),
    "mdp.check": ("check_domain",),
    "mdp.contract": ("Domain",),
    "mdp.equity": ("EquityTerm",),
    "mdp.harness": ("Harness",),
    "pipelines.audit": ("audit_run",),
    "pipelines.audit_records": ("audit_records",),
    "pipelines.frontier": ("FrontierConfig",),
    "pipelines.run": ("RunConfig",),
    "records.quality": ("check_records",),
    "records.store": ("Records", "open_records"),
    "report.folder": ("Run", "list_runs", "open_run"),
    "reporting.calibration": ("Calibration", "calibrate"),
    "training": ("train", "with_equity"),
    "training.loop": ("Trained",),
    "serving.policy": ("LoadedPolicy", "load_policy"),
    "training.saving": ("save_policy", "save_rule"),
}  # fmt: skip
"""Module -> the public names it holds; the imports above, for when a name is used."""
_MODULE_OF = {name: module for module, names in _NAMES_OF.items() for name in names}

register_with_gymnasium()


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_MODULE_OF[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
