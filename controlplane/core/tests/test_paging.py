"""Pages of lists."""

from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from controlplane.core import paging
from controlplane.core.models import Event
from controlplane.core.paging import Page, page_by_key, page_of


def made(count: int) -> None:
    Event.objects.bulk_create([Event(name=f"test.{number}", actor="test") for number in range(count)])


@pytest.mark.django_db
def test_pages_cover_the_list_without_gap_or_overlap() -> None:
    made(7)
    pages = [page_of(Event.objects.order_by("id"), number, size=3) for number in (1, 2, 3)]
    assert [event.name for page in pages for event in page.items] == [f"test.{number}" for number in range(7)]
    assert [(page.first_row, page.last_row) for page in pages] == [(1, 3), (4, 6), (7, 7)]
    assert [page.has_next for page in pages] == [True, True, False]
    assert [page.has_previous for page in pages] == [False, True, True]
    assert {page.last for page in pages} == {3}


@pytest.mark.django_db
@pytest.mark.parametrize("nonsense", [None, "", "x", "-3", 0, "1.5", "9" * 30])
def test_nonsense_is_the_first_page_and_too_far_the_last(nonsense: Any) -> None:
    made(4)
    page = page_of(Event.objects.order_by("id"), nonsense, size=3)
    assert page.number == (2 if nonsense == "9" * 30 else 1)
    assert page.items


@pytest.mark.django_db
def test_an_empty_list_has_one_empty_page() -> None:
    page = page_of(Event.objects.all(), 5)
    assert (list(page.items), page.number, page.last, page.first_row, page.last_row) == ([], 1, 1, 0, 0)


@pytest.mark.django_db
def test_a_page_costs_two_queries(django_assert_num_queries: Any) -> None:
    made(10)
    with django_assert_num_queries(2):
        page_of(Event.objects.order_by("id"), 2, size=3)


@pytest.mark.django_db
@pytest.mark.parametrize("is_found_once", [False, True])
@pytest.mark.parametrize("number", [None, 1, 2, 3, 99])
def test_a_page_by_key_is_the_same_page_with_rows_that_show_more(number: Any, is_found_once: bool) -> None:
    made(7)
    found = Event.objects.exclude(name="test.4").order_by("-name").only("pk")
    plain = page_of(found, number, size=3)
    by_key = page_by_key(found, Event.objects.only("name"), number, size=3, is_found_once=is_found_once)
    assert by_key == plain
    assert [event.get_deferred_fields() & {"name", "actor"} for event in by_key.items] == [{"actor"}] * len(plain.items)


@pytest.mark.django_db
@pytest.mark.parametrize(("is_found_once", "queries"), [(False, 3), (True, 2)])
def test_a_page_by_key_looks_for_rows_twice_or_once(
    django_assert_num_queries: Any, is_found_once: bool, queries: int
) -> None:
    made(10)
    with django_assert_num_queries(queries) as asked:
        page_by_key(Event.objects.filter(actor="test"), Event.objects.all(), 2, size=3, is_found_once=is_found_once)
    assert sum('WHERE "core_event"."actor"' in query["sql"] for query in asked) == queries - 1


@pytest.mark.django_db
def test_a_row_that_is_deleted_between_the_two_looks_is_left_out() -> None:
    made(3)
    page = page_by_key(Event.objects.order_by("id"), Event.objects.exclude(name="test.1"))
    assert [event.name for event in page.items] == ["test.0", "test.2"]


def test_beyond_the_limit_the_total_is_a_lower_bound_and_a_full_page_may_have_a_next() -> None:
    limit = paging.COUNT_LIMIT
    last_counted: Page[Event] = Page(
        items=[Event()] * 50, number=limit // 50, size=50, total=limit, total_is_exact=False
    )
    assert last_counted.has_next
    exact: Page[Event] = Page(items=[Event()] * 50, number=limit // 50, size=50, total=limit, total_is_exact=True)
    assert not exact.has_next


@pytest.mark.django_db
def test_a_long_list_is_counted_only_up_to_the_limit() -> None:
    made(paging.COUNT_LIMIT + 1)
    with CaptureQueriesContext(connection) as captured:
        page = page_of(Event.objects.order_by("id"), 1)
    assert f"LIMIT {paging.COUNT_LIMIT + 1}" in captured.captured_queries[0]["sql"]
    assert (page.total, page.total_is_exact, len(page.items)) == (paging.COUNT_LIMIT, False, paging.PAGE_SIZE)
