"""Where an exported city's tracts and buildings lie: outlines that meet, points inside them.

A synthetic tract is a centre and figures; a portal publishes outlines and points. The outline is
the area nearer to the centre than to any other, so neighbours share an edge; buildings lie around
the centre, nearer to it than half the way to the next one.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from scipy.spatial import KDTree, Voronoi

MARGIN_DEGREES = 0.02
"""How far the outermost tracts reach."""
DIGITS = 6
"""Of exported degrees: 0.1 m."""
GOLDEN_ANGLE = np.pi * (3.0 - np.sqrt(5.0))
"""Points that turn by it fill a disc evenly."""
REACH = 0.9
"""Of the disc in which buildings lie."""


def tract_outlines(centres: np.ndarray) -> list[list[list[float]]]:
    """Outline of every tract, a closed ring of (longitude, latitude).

    Centres mirrored at the city's edges close the outermost cells.
    """
    low, high = centres.min(axis=0) - MARGIN_DEGREES, centres.max(axis=0) + MARGIN_DEGREES
    mirrored = [centres]
    for axis in range(2):
        for edge in (low, high):
            other = centres.copy()
            other[:, axis] = 2.0 * edge[axis] - other[:, axis]
            mirrored.append(other)
    found = Voronoi(np.concatenate(mirrored))
    rings = []
    for place, centre in enumerate(centres):
        corners = found.vertices[found.regions[found.point_region[place]]]
        turn = np.arctan2(corners[:, 1] - centre[1], corners[:, 0] - centre[0])
        ring = corners[np.argsort(turn)].round(DIGITS).tolist()
        rings.append([*ring, ring[0]])
    return rings


def outlines_as_geojson(tracts: pa.Table, name: str) -> dict[str, Any]:
    """GeoJSON of the tracts with their geoid under a property of this name."""
    rings = tract_outlines(centres_of(tracts))
    return {
        "type": "FeatureCollection",
        "features": [
            {
                "type": "Feature",
                "properties": {name: geoid},
                "geometry": {"type": "Polygon", "coordinates": [ring]},
            }
            for geoid, ring in zip(tracts["geoid"].to_pylist(), rings, strict=True)
        ],
    }


def centres_of(tracts: pa.Table) -> np.ndarray:
    """(n_tracts, 2) longitude and latitude."""
    return np.column_stack([tracts["longitude"].to_numpy(), tracts["latitude"].to_numpy()])


def building_points(tracts: pa.Table, buildings: pa.Table) -> dict[str, tuple[float, float]]:
    """Longitude and latitude of every building, and of every tract under its geoid."""
    centres = centres_of(tracts)
    # In degrees of longitude as of latitude: a disc that is too narrow, never too wide.
    radius = KDTree(centres).query(centres, k=2)[0][:, 1] / 2.0 * REACH
    geoids = tracts["geoid"].to_pylist()
    tract_of = {geoid: place for place, geoid in enumerate(geoids)}
    inside = np.array([tract_of[geoid] for geoid in buildings["tract"].to_pylist()])
    n_inside = np.bincount(inside, minlength=len(geoids))
    order = np.argsort(inside, kind="stable")
    number = np.empty(len(inside))
    number[order] = np.arange(len(inside)) - (np.cumsum(n_inside) - n_inside)[inside[order]]
    away = radius[inside] * np.sqrt((number + 0.5) / n_inside[inside])
    turn = number * GOLDEN_ANGLE
    around = away[:, None] * np.column_stack([np.cos(turn), np.sin(turn)])
    names = [*geoids, *buildings["building_id"].to_pylist()]
    found = np.concatenate([centres, centres[inside] + around]).round(DIGITS)
    return {name: (x, y) for name, (x, y) in zip(names, found.tolist(), strict=True)}
