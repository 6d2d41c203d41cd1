from __future__ import annotations

from controlplane.bench.domain.gpu_samples import parse_reading, query_command
from controlplane.protocol.engine_metrics import EngineSample, difference, has_restarted, parse_metrics

# vLLM 0.32 with 64 running and 96 waiting, shortened.
CURRENT = """\
# HELP vllm:num_requests_running Number of requests in model execution batches.
# TYPE vllm:num_requests_running gauge
process_start_time_seconds 1.79595441201e+09
vllm:num_requests_running{engine="0",model_name="tiny-llama"} 64.0
vllm:num_requests_waiting{engine="0",model_name="tiny-llama"} 96.0
vllm:num_requests_waiting_by_reason{engine="0",model_name="tiny-llama",reason="capacity"} 96.0
vllm:kv_cache_usage_perc{engine="0",model_name="tiny-llama"} 0.031253815162983756
vllm:prefix_cache_queries_total{engine="0",model_name="tiny-llama"} 462617.0
vllm:prefix_cache_queries_created{engine="0",model_name="tiny-llama"} 1.79595443409881e+09
vllm:prefix_cache_hits_total{engine="0",model_name="tiny-llama"} 297600.0
vllm:external_prefix_cache_hits_total{engine="0",model_name="tiny-llama"} 5.0
vllm:num_preemptions_total{engine="0",model_name="tiny-llama"} 0.0
vllm:prompt_tokens_total{engine="0",model_name="tiny-llama"} 462617.0
vllm:prompt_tokens_by_source_total{engine="0",model_name="tiny-llama",source="local_compute"} 165017.0
vllm:generation_tokens_total{engine="0",model_name="tiny-llama"} 66393.0
"""


def test_a_current_release_is_read() -> None:
    assert parse_metrics(CURRENT) == EngineSample(
        running=64,
        waiting=96,
        kv_usage_mean=0.031253815162983756,
        kv_usage_max=0.031253815162983756,
        prefix_queries=462617,
        prefix_hits=297600,
        preemptions=0,
        prompt_tokens=462617,
        generation_tokens=66393,
        process_start=1795954412.01,
    )


def test_older_names_are_read_and_newer_ones_win_where_both_are_there() -> None:
    old = 'vllm:gpu_cache_usage_perc{model_name="m"} 0.5\nvllm:gpu_prefix_cache_hits_total 7\n'
    assert parse_metrics(old).kv_usage_max == 0.5
    assert parse_metrics(old).prefix_hits == 7
    both = old + 'vllm:kv_cache_usage_perc{model_name="m"} 0.6\nvllm:prefix_cache_hits_total 9\n'
    assert parse_metrics(both).kv_usage_max == 0.6
    assert parse_metrics(both).prefix_hits == 9


def test_engines_are_summed_save_for_shares() -> None:
    page = "".join(
        f'vllm:num_requests_running{{engine="{engine}"}} {count}\n'
        f'vllm:kv_cache_usage_perc{{engine="{engine}"}} {share}\n'
        f'vllm:generation_tokens_total{{engine="{engine}"}} 1e3\n'
        for engine, count, share in ((0, 3, 0.2), (1, 5, 0.6))
    )
    sample = parse_metrics(page)
    assert (sample.running, sample.generation_tokens) == (8, 2000)
    assert (sample.kv_usage_mean, sample.kv_usage_max) == (0.4, 0.6)


def test_what_is_not_there_or_not_a_number_is_missing() -> None:
    assert parse_metrics("") == EngineSample()
    assert parse_metrics("vllm:kv_cache_usage_perc NaN\nvllm:num_requests_running what\n<html>") == EngineSample()


def test_labels_with_braces_spaces_and_time_stamps_are_read() -> None:
    line = 'vllm:num_requests_running{model_name="a } b {"} 4 1795954434098\n'
    assert parse_metrics(line).running == 4


def test_the_hit_rate_is_of_the_span_and_missing_without_queries() -> None:
    before = EngineSample(prefix_queries=100, prefix_hits=50, generation_tokens=10)
    after = EngineSample(prefix_queries=300, prefix_hits=200, generation_tokens=30)
    assert difference(before, after)["prefix_hit_rate"] == 0.75
    assert difference(before, after)["generation_tokens"] == 20
    assert difference(before, after)["preemptions"] is None
    assert difference(before, before)["prefix_hit_rate"] is None


def test_a_restart_shows_in_the_start_time_or_in_a_counter_that_ran_back() -> None:
    assert has_restarted([EngineSample(process_start=100), EngineSample(process_start=160)])
    assert has_restarted([EngineSample(generation_tokens=9), EngineSample(generation_tokens=3)])
    assert not has_restarted([EngineSample(process_start=100, generation_tokens=3), EngineSample(generation_tokens=9)])
    assert not has_restarted([])


def test_a_gpu_reading_has_units_and_holes() -> None:
    reading = parse_reading("0, GPU-8f3a, 87, 40536, 81559, 512.33, 1980")
    assert reading is not None
    assert (reading.index, reading.uuid, reading.utilisation_percent) == (0, "GPU-8f3a", 87)
    assert reading.memory_used_bytes == 40536 * 1024 * 1024
    sliced = parse_reading("1, GPU-11, [N/A], 100, 200, [Not Supported], [Unknown Error]")
    assert sliced is not None
    assert (sliced.utilisation_percent, sliced.power_w, sliced.sm_clock_mhz) == (None, None, None)


def test_what_nvidia_smi_says_instead_is_no_reading() -> None:
    assert parse_reading("NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.") is None
    assert parse_reading("No devices were found") is None


def test_nvidia_smi_is_asked_once_for_the_whole_run() -> None:
    assert query_command(period_s=1.0) == [
        "nvidia-smi",
        "--query-gpu=index,uuid,utilization.gpu,memory.used,memory.total,power.draw,clocks.sm",
        "--format=csv,noheader,nounits",
        "--loop-ms=1000",
    ]
