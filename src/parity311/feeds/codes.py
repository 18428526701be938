"""Our own tables from the codes of the sources to domains, severities and outcome classes.

``dob_categories.csv``: domain and severity of each DOB complaint category; ``severity_basis`` says
whether the severity is the published priority (Rev 12/18) or assigned here by the nearest published
code; ``origin`` agency marks categories the agency opens itself. ``dob_dispositions.csv``: outcome
class; a rescinded order (L2, L3, Y2, Y4, P4) is enforcement that came before, hence a violation.
``sr311_types.csv``: 311 types, matched by agency first, because HPD's ELEVATOR is not DOB's
Elevator; the first row whose descriptor pattern fits wins. ``resolution_texts.csv``: phrases of the
closing texts, the first that fits wins.
"""

from __future__ import annotations

from importlib.resources import files

import pyarrow as pa
import pyarrow.csv as pv

from parity311.records.sql import Connection, identifier

CODE_TABLES = (
    "dob_categories",
    "dob_dispositions",
    "sr311_types",
    "resolution_texts",
    "hpd_problem_types",
)


def read_codes(name: str) -> pa.Table:
    """One code table, every column as text, with its row number as ``place``."""
    path = files("parity311.feeds") / "codes" / f"{name}.csv"
    with path.open("rb") as file:
        table = pv.read_csv(file, convert_options=pv.ConvertOptions(strings_can_be_null=False))
    columns = {column: table[column].cast(pa.string()) for column in table.column_names}
    return pa.table({**columns, "place": pa.array(range(len(table)), pa.int32())})


def load_codes(connection: Connection) -> None:
    """Make every code table a table ``codes_<name>`` of the connection."""
    for name in CODE_TABLES:
        connection.register("_codes", read_codes(name))
        connection.execute(
            f"CREATE OR REPLACE TABLE {identifier(f'codes_{name}')} AS SELECT * FROM _codes"
        )
        connection.unregister("_codes")


def make_mapped_codes(
    connection: Connection,
    types: pa.Table | None = None,
    outcomes: pa.Table | None = None,
) -> None:
    """Tables codes_mapped and codes_mapped_outcomes: another city's codes, empty for New York."""
    connection.execute("""
CREATE OR REPLACE TABLE codes_mapped (category VARCHAR, domain VARCHAR, severity VARCHAR);
CREATE OR REPLACE TABLE codes_mapped_outcomes
  (status VARCHAR, disposition_class VARCHAR, n_visits SMALLINT)""")
    for name, table in (("codes_mapped", types), ("codes_mapped_outcomes", outcomes)):
        if table is not None:
            connection.register("_codes", table)
            connection.execute(f"INSERT INTO {identifier(name)} SELECT * FROM _codes")
            connection.unregister("_codes")


def known_domains() -> tuple[str, ...]:
    """Domains that some source of this package has complaints for."""
    names = {"boiler"}
    for table in ("dob_categories", "sr311_types"):
        names |= set(read_codes(table)["domain"].to_pylist())
    return tuple(sorted(names))
