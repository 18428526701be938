"""What a run keeps so that its policies can be explained later from its folder alone.

Tables `explain_policies` (a network as plain arrays, with its features and actions) and
`explain_rows` (observations to explain and to compare with).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from parity311.errors import RunError
from parity311.explain.inputs import ExplainInputs
from parity311.report.folder import Run
from parity311.report.store import RunWriter

KEY = ("domain", "setting", "policy")


def store_policies(run: RunWriter, inputs: Sequence[ExplainInputs]) -> None:
    """Store policies and rows in a run that is being written; call it once a run."""
    if not inputs:
        return  # agents that are no networks cannot be explained this way
    run.add_table("explain_policies", [_policy_row(one) for one in inputs])
    run.add_table("explain_rows", [row for one in inputs for row in _rows(one)])


def store_variants(run: RunWriter, rows: Sequence[Mapping[str, Any]]) -> None:
    """Store what features are worth: one row a domain, setting and set of features."""
    if rows:
        run.add_table("explain_variants", [dict(row) for row in rows])


def load_variants(run: Run) -> list[dict[str, Any]]:
    """Read back what `store_variants` kept; none where the run trained no other features."""
    if "explain_variants" not in run.table_names:
        return []
    return run.table("explain_variants").to_pylist()


def _key(one: ExplainInputs) -> dict[str, str]:
    return {name: getattr(one, name) for name in KEY}


def _policy_row(one: ExplainInputs) -> dict[str, Any]:
    arrays = {name: np.asarray(values, dtype=np.float64) for name, values in one.network.items()}
    return {
        **_key(one),
        "feature_names": list(one.feature_names),
        "action_names": list(one.action_names),
        "geographic": list(one.geographic),
        "escalating": list(one.escalating),
        "arrays": list(arrays),
        "shapes": [list(values.shape) for values in arrays.values()],
        "values": [values.ravel().tolist() for values in arrays.values()],
    }


def _rows(one: ExplainInputs) -> list[dict[str, Any]]:
    key = _key(one)
    rows = [
        {
            **key,
            "is_background": False,
            "complaint_id": str(one.complaint_id[i]),
            "tract": str(one.tract[i]),
            "severity": str(one.severity[i]),
            "income_quintile": int(one.income_quintile[i]),
            "observation": [float(value) for value in one.rows[i]],
        }
        for i in range(len(one.rows))
    ]
    others = [
        {**key, "is_background": True, "observation": [float(value) for value in row]}
        for row in one.background
    ]
    return rows + others


def load_policies(run: Run) -> tuple[ExplainInputs, ...]:
    """Read back what `store_policies` kept."""
    if "explain_policies" not in run.table_names:
        raise RunError(
            f"Run {run.id} keeps no policy to explain (made by `{run.info.get('command', '?')}`); "
            "explain a run of `parity311 run`, made with this version."
        )
    policies = run.table("explain_policies").to_pylist()
    rows = run.table("explain_rows").to_pylist()
    return tuple(_load(policy, rows) for policy in policies)


def _load(policy: dict[str, Any], rows: list[dict[str, Any]]) -> ExplainInputs:
    mine = [row for row in rows if all(row[name] == policy[name] for name in KEY)]
    own = [row for row in mine if not row["is_background"]]
    arrays = [
        np.array(values).reshape(shape)
        for values, shape in zip(policy["values"], policy["shapes"], strict=True)
    ]
    # Runs of earlier versions kept one network, layer by layer.
    layers = [f"{kind}_{i}" for i in range(len(arrays) // 2) for kind in ("weight", "bias")]
    names = policy.get("arrays") or layers
    return ExplainInputs(
        **{name: policy[name] for name in KEY},
        network=dict(zip(names, arrays, strict=True)),
        feature_names=tuple(policy["feature_names"]),
        action_names=tuple(policy["action_names"]),
        geographic=tuple(policy["geographic"]),
        rows=np.array([row["observation"] for row in own]),
        background=np.array([row["observation"] for row in mine if row["is_background"]]),
        tract=np.array([row["tract"] for row in own]),
        severity=np.array([row["severity"] for row in own]),
        income_quintile=np.array([row["income_quintile"] for row in own]),
        complaint_id=np.array([row["complaint_id"] for row in own]),
        escalating=tuple(policy["escalating"]),
    )


def file_stem(*parts: str) -> str:
    """Name of a table or picture from its parts: letters, digits and single hyphens."""
    return re.sub(r"[^a-z0-9]+", "-", "-".join(parts).lower()).strip("-")
