"""What lists may be asked for: words, orders, filters."""

from dataclasses import dataclass

import pytest
from django.http import QueryDict

from controlplane.core.listing import ListFilter
from controlplane.core.models import Event
from controlplane.core.searching import Natural, clean, ordered

SORTS = {"name": ("name", "actor"), "actor": ("actor",)}


@dataclass(frozen=True, slots=True)
class _Filter(ListFilter):
    state: str = ""


def test_a_filter_takes_its_own_names_and_leaves_the_rest() -> None:
    assert _Filter.of(QueryDict("q=a&state=ready&sort=-name&other=1")) == _Filter(q="a", state="ready", sort="-name")


@pytest.mark.parametrize(("query", "is_set"), [("", False), ("sort=name", False), ("q=a", True), ("state=ready", True)])
def test_a_filter_is_set_when_it_leaves_something_out(query: str, is_set: bool) -> None:
    assert _Filter.of(QueryDict(query)).is_set is is_set


def test_a_word_has_no_nul_and_no_margin() -> None:
    assert clean(" a\x00b ") == "ab"


@pytest.mark.django_db
def test_names_are_ordered_as_people_count() -> None:
    names = ["a", "gpu2", "gpu10", "gpu10-b2", "gpu10-b10", "gpu100", "rack1-gpu9", "rack02-gpu1", "x2026113000001"]
    for name in reversed(names):
        Event.objects.create(name=name, actor="test")
    assert list(Event.objects.order_by(Natural("name")).values_list("name", flat=True)) == names
    found = ordered(Event.objects.all(), "-name", {"name": (Natural("name"),)})
    assert list(found.values_list("name", flat=True)) == names[::-1]


@pytest.mark.parametrize(
    ("sort", "default", "order"),
    [
        ("name", "", "name ASC NULLS LAST, actor ASC, id DESC"),
        ("-name", "", "name DESC NULLS LAST, actor ASC, id DESC"),
        ("nonsense", "", "id DESC"),
        ("", "actor", "actor ASC NULLS LAST, id DESC"),
        ("-nonsense", "actor", "actor ASC NULLS LAST, id DESC"),
    ],
)
def test_an_order_that_is_not_offered_is_the_default(sort: str, default: str, order: str) -> None:
    sql = str(ordered(Event.objects.all(), sort, SORTS, default=default).query)
    assert sql.partition(" ORDER BY ")[2].replace('"', "").replace("core_event.", "") == order
