"""Charts as SVG text: deterministic, responsive, readable without colour, without a library.

Each function takes plain data and returns one SVG document with title and description. `width` is
the number of units across: about 720 for a page, about 320 for a phone, where labels move above
their rows. Undefined numbers leave a gap and are listed as not available.
"""

from parity311.report.pictures.axis import Axis
from parity311.report.pictures.curves import line_chart, profile_grid
from parity311.report.pictures.data import Cell, Estimate, Line, Panel, Point, Reference, Series
from parity311.report.pictures.points import scatter_plot
from parity311.report.pictures.rows import bar_chart, interval_plot, ranked_plot
from parity311.report.pictures.tract_map import tract_map

__all__ = [
    "Axis",
    "Cell",
    "Estimate",
    "Line",
    "Panel",
    "Point",
    "Reference",
    "Series",
    "bar_chart",
    "interval_plot",
    "line_chart",
    "profile_grid",
    "ranked_plot",
    "scatter_plot",
    "tract_map",
]
