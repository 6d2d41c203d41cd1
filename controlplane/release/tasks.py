"""The hands of promotions."""

from typing import Any

from celery import shared_task

from controlplane.core import dispatch
from controlplane.release import reconcile


@shared_task(name="release.advance")
def advance(**_: Any) -> None:
    """The tick: every promotion that is under way, each in a message of its own, so that one cannot hold up another."""
    for promotion_id in reconcile.under_way():
        dispatch.after_commit("release.advance_one", promotion_id=promotion_id)


@shared_task(name="release.advance_one")
def advance_one(promotion_id: int, **_: Any) -> None:
    reconcile.advance(promotion_id)
