"""Words by which columns, categories, statuses and channels of unknown cities are told.

Names of columns are those that data portals use for the same thing, in English and Spanish; they
are compared without case, accents, spaces and punctuation. Categories go to the first line one of
whose words they hold.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from unicodedata import combining, normalize

_ENGLISH: dict[str, tuple[str, ...]] = {
    "key": (
        "unique_key", "sr_number", "case_number", "case_id", "caseid", "casenumber", "srnumber",
        "service_request_id", "service_request_number", "request_id", "requestnumber",
        "case_enquiry_id", "ticket_id", "ticket_number", "incident_number", "complaint_number",
        "complaint_id", "reference_number", "record_id", "issue_id", "id", "objectid", "rowid",
    ),
    "received_at": (
        "created_date", "createddate", "created_at", "open_dt", "open_date", "opened",
        "date_opened", "opened_date", "requested_datetime", "received_date", "date_received",
        "reported_date", "date_reported", "date_entered", "submitted_date", "request_date",
        "creation_date", "date_created", "created", "ticket_created_date_time", "date",
    ),
    "category": (
        "complaint_type", "sr_type", "request_type", "requesttype", "service_name", "case_type",
        "type", "category", "issue_type", "service_type", "problem", "problem_type", "case_title",
        "service_request_type", "subject", "case_topic", "description",
    ),
    "longitude": ("longitude", "long", "lon", "lng", "x_longitude", "geolocation__longitude__s",
                  "x", "point_x"),
    "latitude": ("latitude", "lat", "y_latitude", "geolocation__latitude__s", "y", "point_y"),
    "point": ("point", "geocoded_location", "geocoded_column", "georeference", "geo_point_2d",
              "location", "the_geom", "geom", "geometry", "lat_long", "coordinates", "location_1"),
    "closed_at": (
        "closed_date", "closeddate", "closed_dt", "close_date", "date_closed", "closed",
        "resolved_date", "completed_date", "completion_date", "date_completed",
        "resolution_date", "ticket_closed_date_time", "closed_at", "updated_datetime",
    ),
    "status": ("status", "case_status", "sr_status", "status_description", "ticket_status",
               "request_status", "state", "disposition", "closure_reason", "resolution_code"),
    "zip": ("zip_code", "zip", "zipcode", "incident_zip", "postal_code", "postcode",
            "location_zipcode"),
    "building": ("street_address", "address", "full_address", "incident_address", "location",
                 "site_address", "parcel", "building_id", "block_address"),
    "channel": ("origin", "source", "request_source", "report_source", "open_data_channel_type",
                "method_received", "channel", "intake_method", "received_via", "case_source"),
    "duplicate": ("duplicate", "is_duplicate", "duplicate_flag", "isduplicate"),
    "parent": ("parent_sr_number", "parent_id", "parent_case", "duplicate_of", "master_case",
               "parent_request_id", "original_id"),
}  # fmt: skip
_SPANISH: dict[str, tuple[str, ...]] = {
    "key": ("numero_de_solicitud", "numero_de_reporte", "numero_de_caso", "folio", "expediente"),
    "received_at": ("fecha_de_apertura", "fecha_de_creacion", "fecha_de_recepcion",
                    "fecha_de_ingreso", "fecha_inicio", "fecha"),
    "category": ("tipo_de_queja", "tipo_de_solicitud", "tipo_de_reporte", "categoria", "asunto",
                 "tipo"),
    "longitude": ("longitud",),
    "latitude": ("latitud",),
    "closed_at": ("fecha_de_cierre", "fecha_de_solucion", "fecha_de_conclusion", "fecha_fin"),
    "status": ("estado", "estatus", "situacion", "resultado"),
    "zip": ("codigo_postal",),
    "building": ("direccion", "domicilio", "calle"),
    "channel": ("canal", "medio", "origen", "via_de_recepcion"),
    "duplicate": ("duplicado", "duplicada"),
    "parent": ("folio_original", "caso_original"),
}  # fmt: skip
_FRENCH: dict[str, tuple[str, ...]] = {
    "key": ("numero_de_demande", "id_unique", "numero_de_dossier", "identifiant"),
    "received_at": ("date_de_creation", "dds_date_creation", "date_de_reception",
                    "date_declaration", "date_de_la_demande", "date_d_ouverture"),
    "category": ("type_de_demande", "activite_nom", "nature", "categorie", "objet"),
    "closed_at": ("date_de_fermeture", "date_de_cloture", "date_de_resolution", "date_de_fin"),
    "status": ("statut", "etat", "dernier_statut"),
    "zip": ("code_postal",),
    "building": ("adresse",),
    "channel": ("canal", "provenance_originale", "mode_de_reception"),
}  # fmt: skip
_PORTUGUESE: dict[str, tuple[str, ...]] = {
    "key": ("protocolo", "numero_do_chamado", "id_chamado", "numero_da_solicitacao"),
    "received_at": ("data_de_abertura", "data_abertura", "data_inicio", "data_de_criacao",
                    "data_da_solicitacao"),
    "category": ("assunto", "servico", "tipo_de_solicitacao", "subtipo", "tema"),
    "closed_at": ("data_de_encerramento", "data_encerramento", "data_fim", "data_de_conclusao",
                  "data_do_parecer"),
    "status": ("situacao", "status_da_solicitacao"),
    "zip": ("cep",),
    "building": ("endereco", "logradouro"),
    "channel": ("canal_de_atendimento",),
}  # fmt: skip
_GERMAN: dict[str, tuple[str, ...]] = {
    "key": ("vorgangsnummer", "vorgang", "meldungsnummer", "meldungs_id", "aktenzeichen"),
    "received_at": ("eingangsdatum", "meldedatum", "erstellt_am", "eingegangen_am", "datum"),
    "category": ("kategorie", "meldungsart", "anliegen", "betreff", "art"),
    "longitude": ("langengrad", "laengengrad", "geo_lon"),
    "latitude": ("breitengrad", "geo_lat"),
    "closed_at": ("abschlussdatum", "erledigt_am", "abgeschlossen_am", "geschlossen_am"),
    "status": ("bearbeitungsstatus",),
    "zip": ("plz", "postleitzahl"),
    "building": ("adresse", "strasse", "anschrift"),
    "channel": ("eingangskanal", "meldeweg", "quelle"),
}  # fmt: skip
COLUMN_NAMES = {
    name: (*names, *(one for words in (_SPANISH, _FRENCH, _PORTUGUESE, _GERMAN)
                     for one in words.get(name, ())))
    for name, names in _ENGLISH.items()
}  # fmt: skip
"""Field of a map -> names of columns that hold it, the plainest first."""
TRACT_NAMES: dict[str, tuple[str, ...]] = {
    "geoid": ("GEOID", "geoid20", "geoid10", "tract_geoid", "tract", "fips", "tractce",
              "lsoa21cd", "lsoa11cd", "dauid", "area_code"),
    "population": ("population", "total_population", "pop", "total_pop", "B01003_001E"),
    "households": ("households", "total_households", "hh_total", "occupied_units", "B11001_001E"),
    "median_income": ("median_income", "median_household_income", "med_income", "income",
                      "B19013_001E"),
    "median_year_built": ("median_year_built", "year_built", "B25035_001E"),
    "district": ("district", "side", "neighborhood", "borough", "county_name"),
    "board": ("community_area", "community_board", "council_district", "ward"),
    "share_renter": ("share_renter", "pct_renters", "renter_share"),
    "share_black": ("share_black", "pct_black"),
    "share_hispanic": ("share_hispanic", "pct_hispanic"),
    "share_limited_english": ("share_limited_english", "pct_limited_english"),
}  # fmt: skip
"""Field of the table of tracts -> names of columns that hold it."""

LAST_CHANGES = ("updateddatetime",)
"""Squashed names of columns that hold the last change, which of closed rows is the closing: Open311
says so of its own."""

Words = Sequence[tuple[str, str, str]]
"""Pattern of words, what it stands for, and one thing more about that."""

DOMAIN_WORDS: Words = (
    (r"\bheat(ing)?\b|hot water|no heat|calefaccion|agua caliente|chauffage|eau chaude|heizung"
     r"|warmwasser|aquecimento", "heat", "B"),
    (r"elevator|\blift\b|ascensor|elevador|ascenseur|aufzug", "elevator", "B"),
    (r"boiler|carbon monoxide|caldera|monoxido", "boiler", "A"),
    (r"\bcranes?\b|derrick|\bgruas?\b", "crane", "A"),
    (r"scaffold|sidewalk shed|andamio", "scaffold", "B"),
    (r"electric(al)?\b|wiring|downed wire|electric[oa]s?\b", "electrical_revisit", "B"),
    (r"sewer|sewage|catch ?basin|flood|storm ?water|drain|cave-in|water on street"
     r"|alcantarill|drenaje|inundacion|egout|inondation|abwasser|uberschwemmung|esgoto|bueiro|alagamento",
     "drainage", "C"),
    (r"drone|facade", "drone", "B"),
    (r"unsafe building|building collapse|structural|dangerous building", "ert", "A"),
    (r"unsatisfactory living|unsanitary|mold|plumbing|bed ?bug|infestation|housing|tenant"
     r"|building violation|no utilities|egress|residential building|paint|lead"
     r"|insalubr|vivienda|plomeria|\bmoho\b|logement|wohnung|schimmel|moradia", "housing", "C"),
    (r"permit|construction|illegal (occupancy|use|rooming)|zoning|building inspection"
     r"|contractor|working beyond|code violation|building|construccion|permiso",
     "complaint_triage", "B"),
)  # fmt: skip
"""Words of a category, the domain that decides about it, and the severity it is given."""
OUTCOME_WORDS: Words = (
    (r"duplicate|\bdup\b|duplicad[oa]|\bdoublon|duplikat", "duplicate", ""),
    (r"no (violation|action|cause)|unfounded|not found|invalid|compl(y|iance|ied)"
     r"|sin infraccion|improcedente|non fonde|unbegrundet", "no_violation", "1"),
    (r"violation|citation|summons|cited|notice issued|infraccion|\bmulta", "violation", "1"),
    (r"no access|could not (enter|gain)|unable to (access|enter)|sin acceso", "no_access", "1"),
    (r"refer|transferred|forwarded|remitid[oa]|turnad[oa]|transmis|weitergeleitet|encaminhad[oa]",
     "referral", ""),
    (r"cancel|withdrawn|admin|information", "other", ""),
    (r"open|new|pending|progress|assigned|received|submitted|dispatched|hold|started|work ?order"
     r"|abiert[oa]|pendiente|en proceso|recibid[oa]|ouverte?\b|en cours|offen|in bearbeitung"
     r"|abert[oa]|em andamento|pendente",
     "pending", ""),
    (r"closed?|complete|resolved|done|fixed|cerrad[oa]|resuelt[oa]|atendid[oa]|concluid[oa]"
     r"|fermee?\b|resolue?\b|terminee?\b|erledigt|abgeschlossen|geschlossen|fechad[oa]|encerrad[oa]|finalizad[oa]",
     "other", "1"),
)  # fmt: skip
"""Words of a status, its outcome class, and the visits it implies."""
CHANNEL_WORDS: Words = (
    (r"mobile|app\b|iphone|ios|android|twitter|smart|movil", "MOBILE", ""),
    (r"phone|call|voice|telefon|llamada|telephone|appel|anruf", "PHONE", ""),
    (r"web|internet|online|portal|self|email|e-mail|open311|integrated", "ONLINE", ""),
)  # fmt: skip
"""Words of a channel, and what it is here."""


def without_accents(text: str) -> str:
    """Letters without their accents."""
    plain = normalize("NFKD", text.replace("ß", "ss"))
    return "".join(one for one in plain if not combining(one))


def first_match(text: str, words: Words) -> tuple[str, str] | None:
    """What the first line stands for whose pattern a text holds; None where none does.

    Accents do not count. Systems write `no_violation` where people write "no violation".
    """
    spoken = without_accents(text.lower().replace("_", " "))
    for pattern, meaning, more in words:
        if re.search(pattern, spoken):
            return meaning, more
    return None
