"""Moments that people and scripts name."""

from datetime import UTC, datetime


def in_utc(moment: datetime) -> datetime:
    """The same moment in UTC. Postgres refuses offsets beyond 16 hours, which ISO 8601 allows.

    Raises ValueError when that falls outside the years 1 to 9999.
    """
    try:
        return moment.astimezone(UTC)
    except OverflowError:
        raise ValueError("outside the years 1 to 9999") from None
