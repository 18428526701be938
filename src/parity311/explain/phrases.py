"""The fixed phrases in which a decision is explained, and their translations.

Every reason a resident can read comes from this list; nothing is composed freely, so that each
sentence can be checked and translated once. Phrases say what is known about the case. They never
say who lives there, and features that only say where it lies have no phrase on purpose.
"""

from __future__ import annotations

import gettext
import io
import re
import struct
from dataclasses import dataclass
from functools import lru_cache
from importlib import resources

from parity311.errors import unknown_name


@dataclass(frozen=True)
class Phrase:
    """What a feature means in words, when it is high and when it is low."""

    high: str
    low: str


def _(text: str) -> str:
    """Mark a text for translation where it is written; it is translated where it is used."""
    return text


PHRASES: dict[str, Phrase] = {
    "is_recurrent": Phrase(
        _("the same problem was reported at this address before"),
        _("nothing like it was reported at this address before"),
    ),
    "recurrent": Phrase(
        _("the same problem was reported at this address before"),
        _("nothing like it was reported at this address before"),
    ),
    "new": Phrase(_("it is a new complaint"), _("it follows earlier complaints")),
    "is_high_pressure": Phrase(
        _("the boiler works at high pressure"), _("the boiler works at low pressure")
    ),
    "is_internal": Phrase(
        _("the boiler was inspected from the inside"),
        _("the boiler was inspected from the outside only"),
    ),
    "boiler_count_norm": Phrase(
        _("the building has many boilers"), _("the building has few boilers")
    ),
    "hazard_level": Phrase(
        _("the reported hazard is a serious one"), _("the reported hazard is a minor one")
    ),
    "severity": Phrase(
        _("the complaint has an urgent priority code"),
        _("the complaint has a routine priority code"),
    ),
    "backlog": Phrase(
        _("many complaints are waiting at the moment"),
        _("few complaints are waiting at the moment"),
    ),
    "queue": Phrase(
        _("many complaints are waiting at the moment"),
        _("few complaints are waiting at the moment"),
    ),
    "crew_free": Phrase(_("inspectors are free at the moment"), _("all inspectors are busy")),
    "complaint_level": Phrase(
        _("the reported hazard is a serious one"), _("the reported hazard is a minor one")
    ),
    "recurrence": Phrase(
        _("it was reported several times"), _("it was not reported before this complaint")
    ),
    "building_wide": Phrase(_("the whole building is affected"), _("one apartment is affected")),
    "is_building_wide": Phrase(_("the whole building is affected"), _("one apartment is affected")),
    "no_heat": Phrase(_("there is no heat at all"), _("there is some heat")),
    "is_no_heat": Phrase(_("there is no heat at all"), _("there is some heat")),
    "unit_count": Phrase(_("many homes are in the building"), _("few homes are in the building")),
    "temperature": Phrase(
        _("it is not cold outside at the moment"), _("it is cold outside at the moment")
    ),
    "season": Phrase(_("it is the heating season"), _("it is not the heating season")),
    "age_days": Phrase(
        _("the complaint has been waiting for long"), _("the complaint came in recently")
    ),
    "complaint_age": Phrase(
        _("the complaint has been waiting for long"), _("the complaint came in recently")
    ),
    "denial_rate": Phrase(
        _("inspectors were often not let in at this address"),
        _("inspectors were mostly let in at this address"),
    ),
    "open_count": Phrase(
        _("several complaints about this site are open"),
        _("no other complaint about this site is open"),
    ),
    "created_count": Phrase(
        _("several people reported it in the last hour"), _("one person reported it so far")
    ),
    "recurrent_7d": Phrase(
        _("it was reported again within a week"), _("it was not reported in the last week")
    ),
    "time_since_last_resolution_h": Phrase(
        _("the last visit to this site was long ago"), _("this site was visited recently")
    ),
    "n_reports": Phrase(_("several people reported it"), _("one person reported it so far")),
    "days_since_last": Phrase(
        _("the last complaint from this address was long ago"),
        _("another complaint from this address came in recently"),
    ),
}
"""Feature name -> phrase. A feature without one gives no reason to a resident."""

IN_DOMAIN: dict[tuple[str, str], Phrase] = {
    # There the feature rises the more recent the last complaint is.
    ("complaint_triage", "days_since_last"): Phrase(
        PHRASES["days_since_last"].low, PHRASES["days_since_last"].high
    ),
    ("drainage", "address_gap"): Phrase(
        PHRASES["days_since_last"].low, PHRASES["days_since_last"].high
    ),
    ("crane", "is_new"): PHRASES["new"],
}
"""(domain, feature) -> phrase, where it means something else than under its name alone."""
ONLY_IN = {"season": ("heat",), "temperature": ("heat",)}
"""Features whose phrase holds in these domains only: elsewhere a season is a number of four."""


def phrase_for(feature: str, domain: str = "") -> Phrase | None:
    """The phrase of a feature in a domain; None where it gives a resident no reason."""
    if (domain, feature) in IN_DOMAIN:
        return IN_DOMAIN[domain, feature]
    if domain and domain not in ONLY_IN.get(feature, (domain,)):
        return None
    return PHRASES.get(feature)


CIRCUMSTANCES = frozenset({"queue", "backlog", "season", "temperature", "crew_free"})
"""Features that say how things stand, not what the complaint is about: they come last when looking
for what would change a decision."""

SENTENCES = {
    "decided": _("Recommended for this complaint: {action}."),
    "because": _("The main reasons: {reasons}."),
    "no_reason": _("No single detail of the complaint was decisive."),
    "place": _("Where the building is also played a part; the audit page shows how much."),
    "change": _("It would be different if {change}."),
    "no_change": _("No single change in the complaint's details would make it different."),
    "human": _("A person decides; this is a recommendation to intake staff."),
    "contact": _("To speak to a person: {contact}."),
    "appeal": _("To have it looked at again: {appeal}."),
    "not_provided": _("not provided"),
    "list": _("{first} and {last}"),
}
COMMAS = {"zh": "、"}
"""What separates the entries of a list, where it is not a comma and a space."""
ACTIONS = {
    "Inspect": _("an inspector visits"),
    "Defer": _("it waits for its turn"),
    "Batch": _("it is visited together with others nearby"),
    "Escalate": _("it is passed to the emergency team"),
    "Prioritise": _("it is moved to the front"),
    "Do Nothing": _("no visit is planned"),
    "Routine": _("a routine inspection"),
    "Immediate": _("an immediate inspection"),
    "Stop-Work": _("work on the site is stopped"),
    "Close": _("the case is closed"),
    "Monitor": _("the place is watched"),
    "Ignore": _("no visit is planned"),
    "Refer": _("it is referred to another office"),
    "Court": _("it is brought to court"),
    "Canvass": _("inspectors look where few people call"),
    "Coverage priced": _("areas that were served least come first"),
    "Inspect now": _("an inspector visits"),
    "Delay": _("it waits for its turn"),
    "Inspector": _("an inspector visits"),
    "HeavyCrew": _("a crew with heavy equipment is sent"),
}
"""What an action means to a resident; others are shown under their own name."""
LANGUAGES = {"en": "English", "es": "Español", "zh": "中文"}


def action_words(name: str) -> str:
    """What an action means to a resident, however its name is written; else the name itself."""
    plain = {re.sub(r"[^a-z0-9]", "", key.lower()): words for key, words in ACTIONS.items()}
    return plain.get(re.sub(r"[^a-z0-9]", "", name.lower()), name.replace("_", " "))


@lru_cache
def translation(language: str) -> gettext.NullTranslations:
    """The translation into a language; English is the source."""
    if language not in LANGUAGES:
        raise unknown_name("language", language, LANGUAGES)
    if language == "en":
        return gettext.NullTranslations()
    text = resources.files("parity311.explain").joinpath(f"locale/{language}.po")
    return gettext.GNUTranslations(io.BytesIO(compile_catalogue(text.read_text("utf-8"))))


def all_texts() -> tuple[str, ...]:
    """Every text that a translation must hold, once each."""
    texts = [text for phrase in PHRASES.values() for text in (phrase.high, phrase.low)]
    return tuple(dict.fromkeys([*texts, *SENTENCES.values(), *ACTIONS.values()]))


def parse_catalogue(text: str) -> dict[str, str]:
    """Read msgid and msgstr of a .po file; comments and headers are skipped."""
    entries: dict[str, str] = {}
    parts = {"msgid": "", "msgstr": ""}
    current = ""
    for raw in [*text.splitlines(), ""]:
        line = raw.strip()
        if line.startswith("msgid ") or not line:
            if current == "msgstr" and parts["msgid"]:
                entries[parts["msgid"]] = parts["msgstr"]
            if line:
                parts = {"msgid": "", "msgstr": ""}
        if line.startswith(("msgid ", "msgstr ")):
            current, _space, line = line.partition(" ")
        elif not line.startswith('"'):
            current = "" if not line else current
            continue
        parts[current] += line[1:-1].replace('\\"', '"').replace("\\n", "\n")
    return entries


def compile_catalogue(text: str) -> bytes:
    """The binary form that `gettext` reads, from the text of a .po file."""
    entries = {"": "Content-Type: text/plain; charset=UTF-8\n", **parse_catalogue(text)}
    pairs = sorted((key.encode(), value.encode()) for key, value in entries.items() if value)
    ids, strings = b"", b""
    offsets = []
    for key, value in pairs:
        offsets.append((len(ids), len(key), len(strings), len(value)))
        ids, strings = ids + key + b"\0", strings + value + b"\0"
    start = 28 + 16 * len(pairs)
    keys = b"".join(struct.pack("<II", n, start + at) for at, n, _a, _n in offsets)
    values = b"".join(struct.pack("<II", n, start + len(ids) + at) for _a, _n, at, n in offsets)
    header = struct.pack("<7I", 0x950412DE, 0, len(pairs), 28, 28 + 8 * len(pairs), 0, 0)
    return header + keys + values + ids + strings
