"""The direct method: a table of what each action earns and leads to, and the target played in it.

The logged decisions make a model over kinds of case (`cells`): mean outcome and next cell by cell
and action, leaning on the action's mean where decisions are few. The target's value in that model
needs no propensity, and is as good as the cells are: what they leave out biases it.
"""

from __future__ import annotations

import numpy as np

from parity311.evaluation.off_policy.cells import Cells
from parity311.evaluation.off_policy.fitted_q import fitted_q, indicator_basis
from parity311.evaluation.off_policy.logs import Logs


def direct(
    logs: Logs, cells: Cells, target: np.ndarray, discount: float
) -> tuple[np.ndarray, np.ndarray]:
    """Values (L, E, K) that episodes contribute, and the effective number of decisions (L,).

    Certainty equivalence in a table is fitted-Q evaluation with one indicator a cell.
    """
    basis = indicator_basis(cells.place(logs.observation))
    return fitted_q(logs, basis, target, discount)
