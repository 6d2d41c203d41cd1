"""Leases: one at a time, and a dead holder's turn ends by itself."""

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from threading import Barrier

import pytest
from django.db import connection
from django.utils import timezone

from controlplane.core import leases
from controlplane.core.models import Lease


@pytest.mark.django_db
def test_one_holds_the_other_does_not_and_giving_back_lets_the_next_in() -> None:
    with leases.held("a", for_s=60) as mine:
        assert mine
        with leases.held("a", for_s=60) as theirs:
            assert not theirs
        assert Lease.objects.filter(name="a").exists()
        with leases.held("b", for_s=60) as other:
            assert other
    with leases.held("a", for_s=60) as again:
        assert again
    assert not Lease.objects.exists()


@pytest.mark.django_db
def test_an_error_inside_gives_the_lease_back() -> None:
    with pytest.raises(ZeroDivisionError), leases.held("a", for_s=60):
        _ = 1 / 0
    assert not Lease.objects.exists()


@pytest.mark.django_db
def test_a_lease_that_ran_out_is_taken_over_and_its_old_holder_cannot_give_it_back() -> None:
    with leases.held("a", for_s=60) as mine:
        assert mine
        Lease.objects.update(expires_at=timezone.now() - timedelta(seconds=1))
        assert leases.take("a", holder="second", for_s=60)
    assert Lease.objects.get(name="a").holder == "second"


@pytest.mark.django_db
def test_what_runs_is_told_by_the_beginning_of_its_name() -> None:
    for name, for_s in (("look-1", 60), ("look-2", -1), ("other-3", 60)):
        leases.take(name, holder="one", for_s=for_s)
    assert leases.running("look-") == {"look-1"}


@pytest.mark.django_db
def test_a_holder_extends_its_own_lease() -> None:
    assert leases.take("a", holder="one", for_s=1)
    before = Lease.objects.get(name="a").expires_at
    assert leases.take("a", holder="one", for_s=60)
    assert Lease.objects.get(name="a").expires_at > before


@pytest.mark.django_db(transaction=True)
def test_of_many_at_the_same_moment_exactly_one_wins() -> None:
    count = 8
    together = Barrier(count)

    def attempt(number: int) -> bool:
        try:
            together.wait(timeout=10)
            return leases.take("a", holder=f"holder-{number}", for_s=60)
        finally:
            connection.close()

    with ThreadPoolExecutor(count) as pool:
        assert sum(pool.map(attempt, range(count))) == 1
