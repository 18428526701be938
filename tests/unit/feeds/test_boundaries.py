"""Points fall into the right polygon, and polygons know their neighbours."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from tests.unit.feeds.cities import CENTRES, GEOIDS, SIDE, SOUTH, WEST, shapes

from parity311.errors import RecordsError
from parity311.feeds.boundaries import Boundaries, read_boundaries


@pytest.fixture
def corner(tmp_path: Path) -> Boundaries:
    path = tmp_path / "tracts.geojson"
    path.write_text(json.dumps(shapes()))
    return read_boundaries(path)


def test_same_as_shapely_on_ragged_polygons_with_holes() -> None:
    shapely = pytest.importorskip("shapely")
    rng = np.random.default_rng(1)
    rings = []
    for k in range(12):
        angle = np.sort(rng.uniform(0, 2 * np.pi, 40))
        centre = np.array([-74 + 0.1 * (k % 4), 40.6 + 0.1 * (k // 4)])

        def ring(radius: np.ndarray, centre=centre, angle=angle) -> np.ndarray:
            points = centre + np.column_stack([np.cos(angle), np.sin(angle)]) * radius[:, None]
            return np.vstack([points, points[:1]])

        rings.append((ring(rng.uniform(0.02, 0.045, 40)), ring(rng.uniform(0.005, 0.01, 40))))
    bounds = Boundaries(np.array([f"{k:02d}" for k in range(12)]), tuple(rings))
    x, y = rng.uniform(-74.06, -73.6, 20_000), rng.uniform(40.54, 40.86, 20_000)
    index, is_nearest = bounds.locate(x, y)
    polygons = [shapely.Polygon(outer, [hole]) for outer, hole in rings]
    tree = shapely.STRtree(polygons)
    points, areas = tree.query(shapely.points(x, y), predicate="within")
    expected = np.full(len(x), -1)
    expected[points] = areas
    assert np.array_equal(np.where(is_nearest, -1, index), expected)
    assert (expected >= 0).sum() > 1000


def test_a_point_in_a_sliver_goes_to_the_nearest_and_far_ones_nowhere(corner: Boundaries) -> None:
    metre = 1 / 111_320
    x = np.array([CENTRES[GEOIDS[0]][0], CENTRES[GEOIDS[0]][0], 0.0, WEST - 1])
    y = np.array([SOUTH - 20 * metre, SOUTH - 200 * metre, 0.0, SOUTH])
    index, is_nearest = corner.locate(x, y)
    assert index.tolist() == [0, -1, -1, -1]
    assert is_nearest.tolist() == [True, False, False, False]


def test_neighbours_share_a_side_not_a_corner(corner: Boundaries) -> None:
    assert corner.neighbours() == [
        [GEOIDS[1], GEOIDS[2]],
        [GEOIDS[0], GEOIDS[3]],
        [GEOIDS[0], GEOIDS[3]],
        [GEOIDS[1], GEOIDS[2]],
    ]


def test_centres(corner: Boundaries) -> None:
    assert corner.centres() == pytest.approx(np.array([CENTRES[geoid] for geoid in GEOIDS]))
    assert corner.boxes[0] == pytest.approx([WEST, SOUTH, WEST + SIDE, SOUTH + SIDE])


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('{"type": "FeatureCollection", "features": [', "cut off"),
        ('{"type": "FeatureCollection", "features": []}', "holds no areas"),
        (json.dumps(shapes("NAME")), "an area without an id"),
    ],
)
def test_bad_boundaries_are_refused(tmp_path: Path, content: str, message: str) -> None:
    path = tmp_path / "tracts.geojson"
    path.write_text(content)
    with pytest.raises(RecordsError, match=message):
        read_boundaries(path)
