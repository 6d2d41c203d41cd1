from __future__ import annotations

import csv
import io
from dataclasses import replace

import pytest

from controlplane.bench.domain.cdf import cdf_points, latencies_ms
from controlplane.bench.domain.comparison import Arm, Change, Incomparable, Row, RunSummary, compare
from controlplane.bench.domain.comparison_export import to_csv, to_markdown
from controlplane.bench.domain.records import RequestRecord
from controlplane.bench.domain.validity import Reason

CACHING = Change("enable_prefix_caching", "false", "true")


def run(
    throughput: float | None = 100.0, *, launch: str | None = None, ttft: float = 50.0, **changes: object
) -> RunSummary:
    """A valid run; each has a launch of its own unless told otherwise."""
    values: dict[str, object] = {
        "run_id": f"r{throughput}",
        "launch_id": launch or f"launch-{throughput}",
        "workload_hash": "w",
        "metrics": {"tput.wall.v1": {"value": throughput}, "ttft.any.v1": {"p50": ttft, "p99": None}},
        "planned": 64,
        "failed": 0,
        "prompt_tokens": 1000,
        "output_tokens": 4096,
        "gpu_status": "no_gpu",
        "gpu_utilisation_percent": None,
        "is_valid": True,
    }
    return RunSummary(**{**values, **changes})  # type: ignore[arg-type]


def row(baseline: tuple[RunSummary, ...], tuned: tuple[RunSummary, ...], *changes: Change) -> Row:
    return compare(Arm("v1", baseline), [Arm("v2", tuned, changes or (CACHING,))])[0]


def test_one_run_each_gives_numbers_but_no_verdict() -> None:
    found = row((run(190),), (run(640),))
    assert found.verdict.sentence == "One run each: no verdict."
    assert found.cells["throughput"].ratio == pytest.approx(640 / 190)
    assert found.cells["throughput"].direction is None


def test_one_run_on_one_side_is_no_verdict_either() -> None:
    assert row((run(190), run(195)), (run(640),)).verdict.code == "one_run"


def test_ranges_apart_are_named_with_their_direction() -> None:
    found = row((run(190, ttft=80), run(200, ttft=90)), (run(630, ttft=95), run(640, ttft=99)))
    assert found.verdict.sentence == "Ranges do not overlap: Throughput (tok/s) better, TTFT p50 (ms) worse."
    assert found.cells["throughput"].baseline is not None
    assert (found.cells["throughput"].baseline.median, found.cells["throughput"].baseline.n) == (195, 2)


def test_ranges_that_overlap_or_touch_cannot_tell() -> None:
    assert row((run(100), run(120)), (run(110), run(130))).verdict.sentence == "Ranges overlap: cannot tell."
    assert row((run(100), run(120)), (run(120), run(130))).verdict.code == "overlap"


def test_runs_that_share_a_launch_are_labelled() -> None:
    found = row((run(100, launch="a"), run(101, launch="a")), (run(200), run(201)))
    assert found.verdict.is_single_launch
    assert found.verdict.sentence.endswith("Single launch.")


def test_invalid_runs_are_not_counted_and_say_why() -> None:
    bad = run(999, is_valid=False, failed=9, reasons=(Reason("failed_requests", "9 of 64 requests failed."),))
    found = row((run(100),), (run(110), bad))
    assert found.tuned_runs == 1
    assert found.cells["throughput"].tuned is not None
    assert found.cells["throughput"].tuned.maximum == 110
    assert "9 of 64 requests failed." in found.notices[0]
    assert found.tuned_errors == "9/128"


def test_an_arm_without_a_valid_run_has_no_numbers() -> None:
    found = row((run(100),), (run(110, is_valid=False),))
    assert found.verdict.sentence == "No verdict: the tuned config has no valid run."
    assert found.cells["throughput"].tuned is None
    assert found.cells["throughput"].ratio is None


def test_a_missing_number_is_missing_on_its_side_only() -> None:
    found = row((run(None),), (run(100),))
    assert found.cells["throughput"].baseline is None
    assert found.cells["throughput"].tuned is not None
    assert found.cells["tpot_p50"].tuned is None


def test_several_changes_share_their_numbers_and_say_so() -> None:
    arm = Arm("v2", (run(200),), (CACHING, Change("max_num_seqs", None, "64")))
    rows = compare(Arm("v1", (run(100),)), [arm])
    assert [each.change.parameter for each in rows] == ["enable_prefix_caching", "max_num_seqs"]
    assert rows[0].cells == rows[1].cells
    assert "2 parameters changed at once" in rows[0].notices[0]


def test_equal_configs_are_a_row_too() -> None:
    found = compare(Arm("v1", (run(100),)), [Arm("v1 again", (run(101),))])
    assert found[0].change.parameter == "(no parameter differs)"


def test_unlike_output_is_a_notice() -> None:
    assert "Output tokens of the arms differ" in row((run(100),), (run(200, output_tokens=4000),)).notices[0]


def test_runs_of_unlike_workloads_do_not_stand_in_one_table() -> None:
    with pytest.raises(Incomparable, match="2 different workloads"):
        row((run(100),), (run(100, workload_hash="other"),))


def test_no_gpu_an_unreadable_gpu_and_a_reading_are_three_answers() -> None:
    def gpu(status: str, share: float | None) -> str:
        return row((run(gpu_status=status, gpu_utilisation_percent=share),), (run(),)).baseline_gpu

    assert gpu("no_gpu", None) == "no GPU"
    assert gpu("nvidia_smi_failed", None) == "GPU not readable"
    assert gpu("ok", 87.4) == "87 %"


def test_the_markdown_table_reads_like_the_missions() -> None:
    lines = to_markdown([row((run(190), run(200)), (run(640), run(650)))]).splitlines()
    assert lines[0].startswith("| Parameter | Baseline | Tuned | Throughput (tok/s) |")
    assert lines[2].startswith("| enable_prefix_caching | false | true | 195 (190–200) → 645 (640–650), ×3.31 |")
    assert "| 0/128 → 0/128 | no GPU | 2 + 2 |" in lines[2]


def test_markdown_keeps_hostile_text_in_its_cell() -> None:
    change = Change("a|b\n<img src=x>", "[x](javascript:1)", None)
    text = to_markdown([row((run(),), (run(),), change)])
    assert "a\\|b &lt;img src=x&gt;" in text
    assert "\\[x\\](javascript:1)" in text
    assert len(text.splitlines()) == 3


def test_csv_has_full_numbers_and_empty_for_missing() -> None:
    [line] = csv.DictReader(io.StringIO(to_csv([row((run(190.123456),), (run(None),))])))
    assert line["throughput_baseline_median"] == "190.123456"
    assert line["throughput_tuned_median"] == ""
    assert line["throughput_ratio"] == ""


@pytest.mark.parametrize("start", ["=", "+", "-", "@", "\t", "\r"])
def test_csv_cells_are_never_formulas(start: str) -> None:
    change = Change(f"{start}cmd()", f"{start}1", f"{start}2")
    [line] = csv.DictReader(io.StringIO(to_csv([replace(row((run(),), (run(),)), change=change)])))
    assert line["parameter"].startswith("'")
    assert line["baseline"].startswith("'")
    assert line["tuned"].startswith("'")


def test_a_curve_keeps_its_ends_and_never_falls() -> None:
    points = cdf_points([float(value) for value in range(10_000)], limit=50)
    assert len(points) <= 50
    assert points[0] == (0.0, 1 / 10_000)
    assert points[-1] == (9999.0, 1.0)
    assert points == sorted(points)
    assert cdf_points([]) == []
    assert cdf_points([3.0, 1.0]) == [(1.0, 0.5), (3.0, 1.0)]


def test_latencies_are_those_of_successful_requests() -> None:
    good = RequestRecord(index=0, sent_s=0.0, status="ok", first_s=0.25)
    assert latencies_ms([good, replace(good, status="failed")], "ttft.any.v1") == [250.0]
