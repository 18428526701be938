"""Corrections of many p-values, on cases small enough to do by hand."""

from __future__ import annotations

import numpy as np
import pytest

from parity311.audit.assess import benjamini_hochberg, holm


def test_holm_by_hand() -> None:
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert holm([0.6, 0.7]) == pytest.approx([1.0, 1.0])


def test_benjamini_hochberg_by_hand() -> None:
    assert benjamini_hochberg([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.04, 0.04])


def test_a_test_that_could_not_be_made_stays_out() -> None:
    assert holm([0.01, np.nan]) == pytest.approx([0.01, np.nan], nan_ok=True)
    assert benjamini_hochberg([np.nan, 0.02]) == pytest.approx([np.nan, 0.02], nan_ok=True)
    assert len(holm([])) == 0
