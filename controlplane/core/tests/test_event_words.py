"""Names of events in words: every one that is recorded, and what is said of its data."""

import re
from pathlib import Path

import pytest
from django.conf import settings
from django.utils import translation

from controlplane.core.event_words import EVENT_WORDS, details_of, names_saying, words_of

RECORDING = [
    path
    for path in (Path(settings.BASE_DIR) / "controlplane").rglob("*.py")
    if "tests" not in path.parts and re.search(r"\bevents\.record\(", path.read_text())
]
NOUNS = "|".join(sorted({name.partition(".")[0] for name in EVENT_WORDS}))


def names_recorded_in(path: Path) -> set[str]:
    """Names that stand in a file that records events: as they are, and as f"noun.{VERBS[…]}" with its verbs."""
    source = path.read_text()
    found = set(re.findall(rf'"((?:{NOUNS})\.[a-z_]+)"', source))
    found |= set(re.findall(r'events\.record\(\s*"([a-z_.]+)"', source))
    for noun, table in re.findall(r'f"([a-z]+)\.\{(\w+)\[', source):
        body = source.partition(f"\n{table} = {{")[2].partition("}")[0]
        found |= {f"{noun}.{verb}" for verb in re.findall(r': "([a-z_]+)"', body)}
    return found


@pytest.mark.parametrize("path", RECORDING, ids=lambda path: str(path.relative_to(settings.BASE_DIR)))
def test_every_event_that_is_recorded_has_words(path: Path) -> None:
    assert names_recorded_in(path) - set(EVENT_WORDS) == set()


def test_no_words_are_left_of_an_event_that_nobody_records() -> None:
    assert set(EVENT_WORDS) - set().union(*map(names_recorded_in, RECORDING)) == set()


def test_a_name_without_words_is_still_readable() -> None:
    assert words_of("engine.option_list_read") == "Engine option list read"


def test_words_can_be_searched_as_they_are_seen() -> None:
    with translation.override("en"):
        assert names_saying("instance FAILED") == ["instance.failed"]
        assert names_saying("no such thing") == []


def test_data_is_told_without_what_is_for_programs_and_without_brackets() -> None:
    data = {
        "before": "ready",
        "exit_code": 0,
        "fields": ["address", "port"],
        "is_override": True,
        "read_only": False,
        "revision": "",
        "note": None,
        "runs": [],
        "version_id": 7,
        "digest": "fcf6",
    }
    assert details_of(data) == ["before: ready", "exit code: 0", "fields: address, port", "override"]
