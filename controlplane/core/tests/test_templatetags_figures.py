import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.core.templatetags import figures


def test_a_missing_value_breaks_the_line() -> None:
    line = figures.sparkline([1, 2, None, 3, 4], 96, 20)
    assert line is not None
    assert len(line.segments) == 2
    assert (line.low, line.high, line.last) == (1, 4, 4)


def test_a_series_that_ends_unmeasured_has_no_last_value() -> None:
    line = figures.sparkline([1, 2, None], 96, 20)
    assert line is not None
    assert line.end is None
    assert line.last is None


def test_a_flat_series_lies_in_the_middle_and_not_on_the_floor() -> None:
    line = figures.sparkline([5, 5], 96, 20)
    assert line is not None
    assert line.segments == ["1.5,10 94.5,10"]


@pytest.mark.parametrize("values", [[], [None, None], [float("nan")]])
def test_nothing_measured_draws_nothing(values: list[float | None]) -> None:
    assert figures.sparkline(values, 96, 20) is None


@given(st.lists(st.none() | st.floats(-1e9, 1e9), min_size=1, max_size=80))
def test_every_point_lies_inside_the_drawing(values: list[float | None]) -> None:
    line = figures.sparkline(values, 96, 20)
    if line is None:
        return
    for pair in " ".join(line.segments).split():
        x, y = map(float, pair.split(","))
        assert 0 <= x <= 96
        assert 0 <= y <= 20


@pytest.mark.parametrize(("used", "total", "share"), [(0, 80, 0.0), (40, 80, 0.5), (90, 80, 1.0), (0, 0, 0.0)])
def test_a_share_stays_between_nothing_and_all(used: float, total: float, share: float) -> None:
    assert figures.share_of(used, total) == share


def test_double_and_half_lie_equally_far_from_no_change() -> None:
    place = figures.interval(0.5, 1.0, 2.0, scale=(0.25, 4.0), reference=1.0, width=140)
    assert place.reference == place.mid
    assert place.mid - place.low == pytest.approx(place.high - place.mid, abs=0.1)


def test_a_bound_outside_the_scale_is_cut_off_at_its_end() -> None:
    place = figures.interval(-0.2, 1.0, 9.0, scale=(0.5, 2.0), reference=3.0, width=100)
    assert (place.low, place.high, place.reference) == (1.0, 99.0, None)


def test_the_common_scale_covers_every_bound_and_no_change() -> None:
    low, high = figures.common_scale([(3.1, 3.6), (None, None), (1.5, 1.9)])
    assert low < 1
    assert high > 3.6


def test_a_scale_without_any_bound_still_has_a_width() -> None:
    low, high = figures.common_scale([])
    assert low < 1 < high


@pytest.mark.parametrize(("utilisation", "level"), [(None, 0), (0.0, 0), (0.12, 1), (0.55, 2), (0.93, 3)])
def test_the_colour_of_a_gpu_follows_its_utilisation(utilisation: float | None, level: int) -> None:
    assert figures.level_of(utilisation) == level
