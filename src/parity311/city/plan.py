"""A stylised plan of the five boroughs: outlines, tract centres, neighbours, districts.

The outlines were drawn by hand for this project, with a dozen corners a borough, so that a map
of the synthetic city is recognisable; they are no survey.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array, csr_array
from scipy.sparse.csgraph import connected_components, minimum_spanning_tree
from scipy.spatial import Delaunay
from scipy.spatial.distance import cdist

from parity311.city.places import BOROUGHS

NYC_TRACTS = 2325
"""Census tracts of New York City, 2020 (city shapefile, which leaves out two of water only)."""

_OUTLINES: dict[str, tuple[tuple[tuple[float, float], ...], ...]] = {
    "Bronx": (
        (
            (-73.928, 40.811),
            (-73.925, 40.845),
            (-73.908, 40.868),
            (-73.919, 40.884),
            (-73.911, 40.915),
            (-73.850, 40.904),
            (-73.823, 40.890),
            (-73.790, 40.880),
            (-73.800, 40.850),
            (-73.794, 40.813),
            (-73.835, 40.816),
            (-73.865, 40.806),
            (-73.885, 40.803),
            (-73.912, 40.798),
        ),
    ),
    "Brooklyn": (
        (
            (-73.958, 40.738),
            (-73.968, 40.712),
            (-73.996, 40.702),
            (-74.017, 40.678),
            (-74.023, 40.655),
            (-74.040, 40.635),
            (-74.033, 40.609),
            (-74.004, 40.592),
            (-74.008, 40.574),
            (-73.945, 40.576),
            (-73.925, 40.585),
            (-73.898, 40.605),
            (-73.877, 40.635),
            (-73.860, 40.655),
            (-73.868, 40.693),
            (-73.896, 40.687),
            (-73.924, 40.716),
            (-73.937, 40.730),
        ),
    ),
    "Manhattan": (
        (
            (-74.017, 40.703),
            (-74.010, 40.742),
            (-73.991, 40.780),
            (-73.962, 40.820),
            (-73.930, 40.875),
            (-73.914, 40.873),
            (-73.934, 40.838),
            (-73.935, 40.805),
            (-73.943, 40.783),
            (-73.969, 40.746),
            (-73.973, 40.725),
            (-73.978, 40.711),
            (-74.000, 40.705),
        ),
    ),
    "Queens": (
        (
            (-73.936, 40.778),
            (-73.956, 40.745),
            (-73.935, 40.734),
            (-73.920, 40.718),
            (-73.893, 40.691),
            (-73.865, 40.697),
            (-73.855, 40.655),
            (-73.825, 40.657),
            (-73.790, 40.645),
            (-73.740, 40.642),
            (-73.727, 40.665),
            (-73.728, 40.700),
            (-73.704, 40.730),
            (-73.704, 40.752),
            (-73.740, 40.773),
            (-73.772, 40.794),
            (-73.815, 40.796),
            (-73.848, 40.788),
            (-73.855, 40.765),
            (-73.880, 40.772),
            (-73.900, 40.786),
        ),
        (  # the Rockaways
            (-73.935, 40.554),
            (-73.850, 40.572),
            (-73.745, 40.590),
            (-73.742, 40.606),
            (-73.790, 40.602),
            (-73.850, 40.588),
            (-73.935, 40.569),
        ),
    ),
    "Staten Island": (
        (
            (-74.074, 40.645),
            (-74.070, 40.625),
            (-74.055, 40.604),
            (-74.085, 40.570),
            (-74.130, 40.545),
            (-74.245, 40.500),
            (-74.252, 40.515),
            (-74.213, 40.558),
            (-74.198, 40.600),
            (-74.185, 40.639),
            (-74.130, 40.643),
        ),
    ),
}
"""Corners (longitude, latitude) of each borough's land, drawn by hand."""

_KM_PER_DEGREE_LONGITUDE = 84.4
"""111.32 km × cos 40.7°."""
_KM_PER_DEGREE_LATITUDE = 111.2
_ORIGIN = (-73.95, 40.70)

_JITTER = 0.15
"""Standard deviation of a centre around its grid point, in grid steps (assumed: looks natural)."""

LONGEST_EDGE = 2.2
"""Tracts farther apart than this many typical steps are no neighbours (assumed: cuts the edges
Delaunay draws over rivers, bays and dents of the outline, and leaves about 5.5 a tract)."""


def to_km(longitude: NDArray[np.float64], latitude: NDArray[np.float64]) -> NDArray[np.float64]:
    """Flat coordinates (n, 2) in km around the middle of the city."""
    return np.column_stack(
        [
            (longitude - _ORIGIN[0]) * _KM_PER_DEGREE_LONGITUDE,
            (latitude - _ORIGIN[1]) * _KM_PER_DEGREE_LATITUDE,
        ]
    )


def to_degrees(km: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Longitude and latitude of flat coordinates (n, 2) in km."""
    return (
        km[:, 0] / _KM_PER_DEGREE_LONGITUDE + _ORIGIN[0],
        km[:, 1] / _KM_PER_DEGREE_LATITUDE + _ORIGIN[1],
    )


def place_centres(rng: np.random.Generator, borough: int, n_tracts: int) -> NDArray[np.float64]:
    """Spread exactly ``n_tracts`` centres (n, 2), in km, evenly over a borough's land."""
    outlines = [_outline_km(outline) for outline in _OUTLINES[BOROUGHS[borough]]]
    corners = np.concatenate(outlines)
    low, high = corners.min(axis=0), corners.max(axis=0)
    area = sum(_area(outline) for outline in outlines)
    step = np.sqrt(area / n_tracts * 2 / np.sqrt(3)) * 1.1
    shift = rng.random(2)
    inside = np.empty((0, 2))
    while len(inside) < n_tracts:
        grid = _triangular_grid(low, high, step, shift)
        inside = grid[np.any([_contains(outline, grid) for outline in outlines], axis=0)]
        step *= 0.99
    kept = np.sort(rng.choice(len(inside), size=n_tracts, replace=False))
    return inside[kept] + rng.normal(scale=_JITTER * step, size=(n_tracts, 2))


def join_neighbours(km: NDArray[np.float64], borough: NDArray[np.int8]) -> NDArray[np.int32]:
    """Pairs (n_edges, 2) of tracts that count as touching, first < second, sorted.

    Delaunay without its long edges. The shortest trees that join each borough, and the four
    boroughs other than Staten Island, stay: every borough is connected, and Staten Island is one
    piece and the rest of the city another.
    """
    on_island = borough == BOROUGHS.index("Staten Island")
    pairs = np.concatenate(
        [
            _delaunay_pairs(km, np.flatnonzero(~on_island)),
            _delaunay_pairs(km, np.flatnonzero(on_island)),
        ]
    )
    length = np.linalg.norm(km[pairs[:, 0]] - km[pairs[:, 1]], axis=1)
    step = _typical_steps(pairs, length, borough)
    kept = [pairs[length <= LONGEST_EDGE * step[borough[pairs]].mean(axis=1)]]
    kept.append(_shortest_tree(_graph(pairs, length, len(km))))
    for index in np.unique(borough):
        own = np.flatnonzero(borough == index)
        kept.append(own[_shortest_tree(csr_array(cdist(km[own], km[own])))])
    return np.unique(np.sort(np.concatenate(kept)), axis=0).astype(np.int32)


def _delaunay_pairs(km: NDArray[np.float64], chosen: NDArray[np.int64]) -> NDArray[np.int64]:
    """Pairs of the chosen points that a Delaunay triangulation of them joins."""
    if len(chosen) < 4:  # too few to triangulate: all touch
        return chosen[np.column_stack(np.triu_indices(len(chosen), 1))]
    triangles = Delaunay(km[chosen]).simplices
    sides = np.concatenate([triangles[:, [0, 1]], triangles[:, [1, 2]], triangles[:, [0, 2]]])
    return chosen[np.unique(np.sort(sides), axis=0)]


def _shortest_tree(graph: csr_array) -> NDArray[np.int64]:
    tree = minimum_spanning_tree(graph).tocoo()
    return np.column_stack([tree.row, tree.col]).astype(np.int64)


def split_contiguous(
    km: NDArray[np.float64], edges: NDArray[np.int32], n_parts: int
) -> NDArray[np.int32]:
    """Cut one borough's tracts into connected parts of nearly equal size; labels from 0.

    Cuts across the longer extent again and again, then hands stray pieces to the part they touch
    most. ``edges`` index into ``km``.
    """
    part = np.zeros(len(km), dtype=np.int32)
    pending = [(np.arange(len(km)), 0, n_parts)]
    while pending:
        members, first, n_wanted = pending.pop()
        if n_wanted == 1:
            part[members] = first
            continue
        centred = km[members] - km[members].mean(axis=0)
        axis = np.linalg.eigh(centred.T @ centred)[1][:, 1]
        axis = axis if axis[np.abs(axis).argmax()] > 0 else -axis
        ordered = members[np.argsort(centred @ axis, kind="stable")]
        n_left = n_wanted // 2
        cut = round(len(members) * n_left / n_wanted)
        pending.append((ordered[:cut], first, n_left))
        pending.append((ordered[cut:], first + n_left, n_wanted - n_left))
    return _join_strays(part, edges)


def _join_strays(part: NDArray[np.int32], edges: NDArray[np.int32]) -> NDArray[np.int32]:
    """Give every piece cut off from its part's largest piece to the neighbouring part."""
    part = part.copy()
    for _ in range(len(part)):
        same = part[edges[:, 0]] == part[edges[:, 1]]
        inner = edges[same]
        n_pieces, piece = connected_components(
            _graph(inner, np.ones(len(inner)), len(part)), directed=False
        )
        size = np.bincount(piece)
        owner = np.zeros(n_pieces, dtype=np.int64)
        owner[piece] = part
        order = np.lexsort((np.arange(n_pieces), -size, owner))
        strays = order[1:][owner[order][1:] == owner[order][:-1]]
        if len(strays) == 0:
            return part
        stray = piece == strays[np.argmin(size[strays])]
        across = edges[stray[edges[:, 0]] != stray[edges[:, 1]]]
        outside = np.where(stray[across[:, 0]], across[:, 1], across[:, 0])
        part[stray] = np.bincount(part[outside]).argmax()
    return part


def _typical_steps(
    pairs: NDArray[np.int64], length: NDArray[np.float64], borough: NDArray[np.int8]
) -> NDArray[np.float64]:
    """Median distance in km between neighbouring centres, per borough."""
    inside = borough[pairs[:, 0]] == borough[pairs[:, 1]]
    steps = np.full(len(BOROUGHS), np.median(length))
    for index in range(len(BOROUGHS)):
        own = inside & (borough[pairs[:, 0]] == index)
        if own.any():
            steps[index] = np.median(length[own])
    return steps


def _graph(pairs: NDArray[np.integer], weight: NDArray[np.float64], n_nodes: int) -> csr_array:
    return coo_array((weight, (pairs[:, 0], pairs[:, 1])), shape=(n_nodes, n_nodes)).tocsr()


def _outline_km(outline: tuple[tuple[float, float], ...]) -> NDArray[np.float64]:
    corners = np.asarray(outline)
    return to_km(corners[:, 0], corners[:, 1])


def _area(outline: NDArray[np.float64]) -> float:
    x, y = outline.T
    return float(abs(np.sum(x * np.roll(y, -1) - np.roll(x, -1) * y)) / 2)


def _triangular_grid(
    low: NDArray[np.float64], high: NDArray[np.float64], step: float, shift: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Points of a triangular lattice that cover a box, moved by a share of a step."""
    rise = step * np.sqrt(3) / 2
    columns = np.arange(int((high[0] - low[0]) / step) + 3)
    rows = np.arange(int((high[1] - low[1]) / rise) + 3)
    column, row = np.meshgrid(columns, rows)
    x = low[0] + (column - 1 + shift[0] + 0.5 * (row % 2)) * step
    y = low[1] + (row - 1 + shift[1]) * rise
    return np.column_stack([x.ravel(), y.ravel()])


def _contains(outline: NDArray[np.float64], points: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Whether each point lies inside the outline: a ray to the right crosses it an odd number."""
    inside = np.zeros(len(points), dtype=np.bool_)
    x, y = points.T
    for (x0, y0), (x1, y1) in zip(outline, np.roll(outline, -1, axis=0), strict=True):
        if y0 == y1:
            continue
        crosses = (y0 > y) != (y1 > y)
        inside ^= crosses & (x < x0 + (x1 - x0) * (y - y0) / (y1 - y0))
    return inside
