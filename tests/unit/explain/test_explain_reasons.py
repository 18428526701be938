"""Plain reasons: from the fixed list, without places, in every language."""

from __future__ import annotations

import re
import string

import numpy as np
import pytest

from parity311.errors import InputError
from parity311.explain import phrases
from parity311.explain.exact import exact_shapley
from parity311.explain.phrases import (
    LANGUAGES,
    PHRASES,
    action_words,
    all_texts,
    compile_catalogue,
    parse_catalogue,
    phrase_for,
    translation,
)
from parity311.explain.reasons import Explanation, explain_decision, write_notice

NAMES = ("no_heat", "building_wide", "unit_count", "zip_freq_24h", "mystery")
ACTIONS = ("Defer", "Inspect")
DEMOGRAPHIC = re.compile(
    r"income|race|black|hispanic|white|asian|renter|poor|rich|zip|borough|neighbo|tract", re.I
)


def policy(rows: np.ndarray) -> np.ndarray:
    """Inspect for no heat, for the whole building, and where the ZIP is busy."""
    inspect = 2 * rows[:, 0] + rows[:, 1] + 1.5 * rows[:, 3] + 0.8 * rows[:, 4] - 1.6
    return np.column_stack([np.zeros(len(rows)), inspect])


def explain_row(*values: float) -> Explanation:
    rng = np.random.default_rng(0)
    background = rng.integers(0, 2, (60, 5)).astype(float)
    row = np.array(values)
    return explain_decision(
        policy,
        exact_shapley(policy, row[None], background),
        row,
        0,
        background,
        feature_names=NAMES,
        action_names=ACTIONS,
        geographic=("zip_freq_24h",),
    )


def test_reasons_come_from_the_list_and_never_from_a_place() -> None:
    found = explain_row(1, 1, 0, 1, 1)
    assert found.action == "Inspect"
    phrases = [reason.phrase for reason in found.reasons]
    assert phrases == ["there is no heat at all", "the whole building is affected"]
    assert found.place_part > 0.1
    assert "zip_freq_24h" in [part.feature for part in found.all_parts]


def test_a_common_flag_is_not_said_the_wrong_way_round() -> None:
    """Where most cases have a flag, having it is still having it."""
    background = np.array([[1.0, 1, 0, 0, 0]] * 9 + [[0.0, 0, 0, 0, 0]])
    row = np.array([1.0, 1, 0, 0, 0])
    found = explain_decision(
        policy,
        exact_shapley(policy, row[None], background),
        row,
        0,
        background,
        feature_names=NAMES,
        action_names=ACTIONS,
    )
    assert found.reasons[0].phrase == "there is no heat at all"


def test_a_decision_against_says_why_not() -> None:
    found = explain_row(0, 0, 0, 0, 0)
    assert found.action == "Defer"
    assert found.reasons[0].phrase == "there is some heat"


def test_what_would_change_it() -> None:
    assert explain_row(0, 0, 0, 0, 0).change_phrase == "there is no heat at all"
    assert explain_row(1, 1, 0, 1, 1).change_phrase == ""


def test_the_notice_in_every_language() -> None:
    found = explain_row(1, 1, 0, 1, 1)
    for language in LANGUAGES:
        text = write_notice(found, language=language, contact="311")
        assert "311" in text
        assert not DEMOGRAPHIC.search(text)
        assert "{" not in text
    assert "no hay nada de calefacción" in write_notice(found, language="es")
    assert "not provided" in write_notice(found)
    with pytest.raises(InputError, match="Unknown language 'xx'"):
        write_notice(found, language="xx")


def test_a_notice_without_a_phrase_says_that_nothing_was_decisive() -> None:
    found = explain_row(0, 0, 0, 1, 1)
    only_place = Explanation(**{**vars(found), "reasons": (), "change_phrase": ""})
    text = write_notice(only_place)
    assert "No single detail" in text
    assert "Where the building is also played a part" in text


def placeholders(text: str) -> set[str]:
    return {name for _, name, _, _ in string.Formatter().parse(text) if name}


@pytest.mark.parametrize("language", [name for name in LANGUAGES if name != "en"])
def test_every_text_is_translated_with_its_placeholders(language: str) -> None:
    say = translation(language).gettext
    for text in all_texts():
        assert say(text) != text
        assert placeholders(say(text)) == placeholders(text)


def test_no_phrase_names_who_lives_there() -> None:
    assert not [text for text in all_texts() if DEMOGRAPHIC.search(text)]
    assert DEMOGRAPHIC.search("it lies in a low-income tract")  # the check can fail


def test_geographic_features_have_no_phrase() -> None:
    assert {"zip_freq_24h", "neighborhood_risk", "borough", "community_board"}.isdisjoint(PHRASES)


def test_a_catalogue_survives_quotes_and_long_lines() -> None:
    text = 'msgid ""\nmsgstr "header"\n\nmsgid "a \\"b\\""\nmsgstr "x "\n"y"\n'
    assert parse_catalogue(text) == {'a "b"': "x y"}
    import gettext
    import io

    assert gettext.GNUTranslations(io.BytesIO(compile_catalogue(text))).gettext('a "b"') == "x y"


def test_a_phrase_can_mean_something_else_in_a_domain() -> None:
    turned = phrase_for("days_since_last", "complaint_triage")
    plain = phrase_for("days_since_last")
    assert turned is not None
    assert plain is not None
    assert (turned.high, turned.low) == (plain.low, plain.high)
    assert phrase_for("season", "heat") is not None
    assert phrase_for("season", "snad") is None


def test_every_action_of_boiler_and_heat_has_words() -> None:
    for name in ("inspect", "defer", "batch", "stop_work", "do_nothing", "heavy_crew"):
        assert action_words(name) in phrases.ACTIONS.values()
    assert action_words("revisit_7d") == "revisit 7d"
