from datetime import UTC, datetime, timedelta

import pytest

from controlplane.core.templatetags import formats

NOW = datetime(2026, 11, 29, 13, 20, 19, tzinfo=UTC)


@pytest.mark.parametrize(
    ("value", "decimals", "text"),
    [
        (1234567, None, "1,234,567"),
        (0, None, "0"),
        (12.0, None, "12"),
        (0.04213, None, "0.042"),
        (3.14159, None, "3.14"),
        (1284.34, None, "1,284"),
        (1284.34, 1, "1,284.3"),
        (7, 2, "7.00"),
        (-1500.5, 1, "-1,500.5"),
    ],
)
def test_a_number_has_thousands_and_the_decimals_asked_for(value: float, decimals: int | None, text: str) -> None:
    assert formats.number(value, decimals) == text


@pytest.mark.parametrize(
    ("size_bytes", "text"),
    [(0, "0 B"), (1023, "1023 B"), (1024, "1 KiB"), (1536, "1.50 KiB"), (80 * 1024**3, "80 GiB"),
     (100 * 1024**2, "100 MiB"), (19541224448, "18.2 GiB"), (2048 * 1024**5, "2,048 PiB")],
)  # fmt: skip
def test_a_size_stands_in_the_largest_unit_that_leaves_one(size_bytes: float, text: str) -> None:
    assert formats.binary_size(size_bytes) == text


@pytest.mark.parametrize(
    ("value_ms", "text"),
    [(0.0421, "0.042 ms"), (23.42, "23.4 ms"), (412, "412 ms"), (999.7, "1.00 s"), (1260, "1.26 s"), (45300, "45.3 s")],
)
def test_a_latency_keeps_three_digits_and_turns_into_seconds(value_ms: float, text: str) -> None:
    assert formats.milliseconds(value_ms) == text


@pytest.mark.parametrize(
    ("value_s", "text"),
    [(0, "0 s"), (0.42, "0.42 s"), (59.4, "59.4 s"), (59.99, "1 min"), (95, "1 min 35 s"), (3599.8, "1 h"),
     (7260, "2 h 1 min"), (180000, "2 d 2 h")],
)  # fmt: skip
def test_a_duration_reads_as_its_two_largest_units(value_s: float, text: str) -> None:
    assert formats.seconds(value_s) == text


@pytest.mark.parametrize(
    ("share", "text"), [(0, "0 %"), (0.004, "0.4 %"), (0.412, "41 %"), (0.9999, "99.9 %"), (1, "100 %"), (1.5, "150 %")]
)
def test_a_share_never_rounds_up_to_all(share: float, text: str) -> None:
    assert formats.percent(share) == text


@pytest.mark.parametrize(
    ("away", "text"),
    [
        (timedelta(0), "just now"),
        (timedelta(seconds=12), "12 s ago"),
        (timedelta(minutes=3, seconds=59), "3 min ago"),
        (timedelta(hours=5), "5 h ago"),
        (timedelta(days=1), "1 day ago"),
        (timedelta(days=29), "29 days ago"),
        (timedelta(days=31), "2026-10-29"),
        (-timedelta(minutes=5), "in 5 min"),
    ],
)
def test_a_time_is_relative_until_the_date_says_more(away: timedelta, text: str) -> None:
    assert formats.relative_time(NOW - away, NOW) == text


@pytest.mark.parametrize(
    ("away", "text"),
    [
        (timedelta(seconds=-1), "for 0 s"),
        (timedelta(minutes=3), "for 3 min"),
        (timedelta(days=30), f"since {NOW - timedelta(days=30):%Y-%m-%d}"),
    ],
)
def test_a_state_lasts_for_a_time_or_since_a_date(away: timedelta, text: str) -> None:
    assert formats.lasting(NOW - away, NOW) == text


@pytest.mark.parametrize(
    ("line", "level"),
    [
        ("INFO 11-29 13:20:19 [api_server.py:1977] vLLM API server version 0.32.0", "info"),
        ("(EngineCore pid=4711) ERROR 11-29 13:20:52 [core.py:710] EngineCore failed to start.", "error"),
        ("(APIServer pid=1) (Worker_TP0 pid=2) WARNING 11-29 13:20:52 [x.py:1] slow", "warning"),
        ("CRITICAL 11-29 13:20:52 [launcher.py:9] dying", "error"),
        ("Traceback (most recent call last):", "error"),
        ("torch.OutOfMemoryError: CUDA out of memory.", "error"),
        ("INFORMATION is no level", ""),
        ("no ERROR at the start", ""),
        ("", ""),
    ],
)
def test_the_level_of_a_log_line_is_read_behind_its_process_names(line: str, level: str) -> None:
    assert formats.log_level(line) == level


@pytest.mark.parametrize("value", [None, "", float("nan"), float("inf")])
def test_what_was_not_measured_is_missing(value: object) -> None:
    assert formats.is_missing(value)


@pytest.mark.parametrize("value", [0, 0.0, False, "0"])
def test_zero_was_measured(value: object) -> None:
    assert not formats.is_missing(value)
