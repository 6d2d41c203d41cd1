"""The committed catalogue tells the truth about vLLM's releases."""

import json
from collections.abc import Mapping
from typing import Any

import pytest

from controlplane.configs.domain import harvest
from controlplane.configs.domain.catalogue import DATA, UnsupportedReleaseError, catalogue, find
from controlplane.configs.domain.flags import Flag, first_sentence, from_record, says_deprecated
from controlplane.configs.domain.removals import REMOVALS
from controlplane.configs.domain.versions import NotAVersionError, Version

from .samples import DATA as SAMPLES

# What a real build and the sources on their own cannot agree on, and why.
CONFIG_OBJECTS = {
    "attention_config",
    "aux_output_config",
    "compilation_config",
    "ec_manager_config",
    "eplb_config",
    "fault_tolerance_config",
    "ir_op_priority",
    "kernel_config",
    "profiler_config",
    "structured_outputs_config",
}  # the build writes the object out, partly filled in for its platform; the catalogue names the class
ENUMS = {"mamba_backend"}  # the build's list shows the Python enum, the catalogue its value
PLATFORM_CHOICES = {"mm_processor_device"}  # one of its choices is the platform's own device

# The releases whose sources were read by hand for the notes that the facts below are from.
SAMPLED_RELEASES = {
    *("0.8.0", "0.8.5.post1", "0.9.0.1", "0.9.2", "0.10.0", "0.10.2", "0.11.0", "0.11.2", "0.12.0", "0.13.0"),
    *("0.14.1", "0.16.0", "0.17.1", "0.18.1", "0.19.1", "0.20.2", "0.21.0", "0.22.1", "0.23.0", "0.24.0"),
    *("0.25.1", "0.26.0", "0.27.1", "0.28.0", "0.29.0", "0.30.0", "0.31.0", "0.32.0", "0.33.0"),
}


def build_list() -> dict[str, Any]:
    """The option list of a real 0.32.0 build (CPU)."""
    listed: dict[str, Any] = json.loads((SAMPLES / "engine-args-0.32.0.json").read_text())
    return listed


@pytest.fixture(scope="module")
def built() -> Mapping[str, Flag]:
    return catalogue().from_option_list(build_list())


def test_the_harvested_options_are_exactly_those_of_a_real_build() -> None:
    listed = {record["dest"]: tuple(record["flags"]) for record in build_list()["args"]}
    assert {dest: flag.flags for dest, flag in catalogue().flags("0.32.0").items()} == listed
    assert len(listed) == 317


@pytest.mark.parametrize("attribute", ["kind", "nargs", "deprecated"])
def test_kinds_of_the_harvest_are_those_of_a_real_build(built: Mapping[str, Flag], attribute: str) -> None:
    harvested = catalogue().flags("0.32.0")
    assert {d: getattr(f, attribute) for d, f in harvested.items()} == {
        d: getattr(f, attribute) for d, f in built.items()
    }


def test_kinds_are_also_right_where_the_build_says_them_itself() -> None:
    """Without help from the catalogue: wherever the converter's name tells the kind."""
    harvested = catalogue().flags("0.32.0")
    unclear = {"_optional_type", "_parse_type", "<lambda>", "None"}
    plain = [record for record in build_list()["args"] if str(record["parser_type"]) not in unclear]
    assert len(plain) > 130
    assert {r["dest"]: from_record(r).kind for r in plain} == {r["dest"]: harvested[r["dest"]].kind for r in plain}


def test_choices_of_the_harvest_are_those_of_a_real_build(built: Mapping[str, Flag]) -> None:
    differ = {dest for dest, flag in catalogue().flags("0.32.0").items() if flag.choices != built[dest].choices}
    assert differ == PLATFORM_CHOICES


def test_defaults_of_the_harvest_are_those_of_a_real_build(built: Mapping[str, Flag]) -> None:
    differ = {dest for dest, flag in catalogue().flags("0.32.0").items() if flag.default != built[dest].default}
    assert differ == CONFIG_OBJECTS | ENUMS


def test_every_sampled_release_is_there_and_more() -> None:
    assert set(catalogue().releases) >= SAMPLED_RELEASES
    assert len(catalogue().releases) == 48
    assert list(catalogue().releases) == sorted(catalogue().releases, key=Version.parse)


def test_the_newest_release_has_as_many_flags_as_was_counted() -> None:
    assert len(catalogue().flags("0.33.0")) == 321


@pytest.mark.parametrize(
    ("dest", "last_in", "removed_in"),
    [
        ("swap_space", "0.17.1", "0.18.0"),
        ("disable_log_requests", "0.16.0", "0.17.0"),
        ("task", "0.12.0", "0.13.0"),
        ("cuda_graph_sizes", "0.12.0", "0.13.0"),
        ("max_seq_len_to_capture", "0.10.2", "0.11.0"),
        ("enable_reasoning", "0.9.2", "0.10.0"),
        ("device", "0.9.2", "0.10.0"),
        ("num_scheduler_steps", "0.10.0", "0.10.1"),
        ("rope_scaling", "0.11.0", "0.11.1"),
        ("max_num_partial_prefills", "0.26.0", "0.27.0"),
        ("calculate_kv_scales", "0.27.1", "0.28.0"),
        ("enable_bf16x3_router_gemm", "0.29.0", "0.30.0"),
        ("disable_frontend_multiprocessing", "0.18.1", "0.19.0"),
        ("speculative_model", "0.8.2", "0.8.3"),
        ("lora_extra_vocab_size", "0.11.2", "0.12.0"),
    ],
)
def test_a_removed_flag_went_when_it_is_known_to_have_gone(dest: str, last_in: str, removed_in: str) -> None:
    history = catalogue().history(dest)
    assert history is not None
    assert (history.last_in, history.removed_in) == (last_in, removed_in)


@pytest.mark.parametrize(
    ("dest", "added_in"),
    [
        ("max_num_seqs", None),
        ("api_server_count", "0.9.1"),
        ("async_scheduling", "0.10.0"),
        ("kv_cache_memory_bytes", "0.10.2"),
        ("runner", "0.10.1"),
        ("structured_outputs_config", "0.11.0"),
        ("optimization_level", "0.12.0"),
        ("attention_backend", "0.13.0"),
        ("performance_mode", "0.17.0"),
        ("shutdown_timeout", "0.18.0"),
        ("spec_method", "0.22.0"),
        ("max_num_queued_reqs", "0.29.0"),
        ("log_level", "0.31.0"),
        ("grpc_port", "0.32.0"),
        ("watchdog_config", "0.33.0"),
    ],
)
def test_a_flag_came_when_it_is_known_to_have_come(dest: str, added_in: str | None) -> None:
    history = catalogue().history(dest)
    assert history is not None
    assert history.added_in == added_in


def test_defaults_moved_when_they_are_known_to_have_moved() -> None:
    utilization = [catalogue().flags(v)["gpu_memory_utilization"].default for v in ("0.19.1", "0.20.0", "0.33.0")]
    assert utilization == [0.9, 0.92, 0.92]
    models = [catalogue().flags(v)["model"].default for v in ("0.9.2", "0.10.0")]
    assert models == ["facebook/opt-125m", "Qwen/Qwen3-0.6B"]
    assert catalogue().changed_defaults("0.19.1", "0.20.0")["gpu_memory_utilization"] == (0.9, 0.92)


def test_shapes_changed_when_they_are_known_to_have_changed() -> None:
    assert catalogue().flags("0.10.0")["api_key"].kind == "str"
    assert catalogue().flags("0.10.1")["api_key"].kind == "list[str]"
    assert "-O" in catalogue().flags("0.11.2")["compilation_config"].flags
    assert "-O" not in catalogue().flags("0.12.0")["compilation_config"].flags
    assert "--device-memory-utilization" not in catalogue().flags("0.30.0")["gpu_memory_utilization"].flags
    assert "--device-memory-utilization" in catalogue().flags("0.31.0")["gpu_memory_utilization"].flags
    assert catalogue().flags("0.13.0")["max_model_len"].kind == "size"
    assert catalogue().flags("0.14.0")["max_model_len"].kind == "size_or_auto"
    assert catalogue().flags("0.8.0")["trust_remote_code"].negative is None
    assert catalogue().flags("0.32.0")["trust_remote_code"].negative == "--no-trust-remote-code"


def test_absence_is_not_a_choice() -> None:
    """Up to 0.30 releases list "None" among the choices and refuse it as a value."""
    offered = {
        c for release in catalogue().releases for f in catalogue().flags(release).values() for c in f.choices or ()
    }
    assert not offered & {None, "None"}


def test_configs_of_old_releases_are_json_too() -> None:
    assert catalogue().flags("0.8.0")["override_pooler_config"].kind == "json"
    assert catalogue().flags("0.9.0")["compilation_config"].kind == "json"


def test_every_removed_flag_has_a_reason_and_no_reason_is_stale() -> None:
    known = catalogue()
    histories = {dest: known.history(dest) for release in known.releases for dest in known.flags(release)}
    assert set(REMOVALS) == {dest for dest, history in histories.items() if history and history.removed_in}
    assert {removal.replacement for removal in REMOVALS.values() if removal.replacement} <= set(histories)


@pytest.mark.parametrize(
    ("asked", "release"),
    [
        ("0.32.0", "0.32.0"),
        ("v0.32.0", "0.32.0"),
        ("0.32.0+cpu", "0.32.0"),
        ("0.11.1rc2", "0.11.1"),
        ("0.11.1rc2.dev12+g1a2b3c4.precompiled", "0.11.1"),
        ("0.8.5.post1", "0.8.5.post1"),
        ("0.19.1.post1", "0.19.1"),
        ("0.9.0.1", "0.9.0.1"),
        ("0.18.7", "0.18.1"),
        ("0.15.1", "0.14.1"),
        ("0.40.0", "0.33.0"),
    ],
)
def test_a_version_is_looked_up_as_the_nearest_release(asked: str, release: str) -> None:
    assert catalogue().release_for(asked) == release


def test_a_version_that_is_not_known_exactly_is_noted() -> None:
    assert catalogue().resolve("0.32.0+cpu").note is None
    assert catalogue().resolve("0.40.0").note == (
        "vLLM 0.40.0 is not in the catalogue: checked as 0.33.0, the newest known release."
    )
    assert catalogue().resolve("0.11.1rc2").note == "0.11.1rc2 is a build on the way to 0.11.1: checked as 0.11.1."


def test_what_is_too_old_or_no_version_is_refused() -> None:
    with pytest.raises(
        UnsupportedReleaseError, match=r"vLLM 0\.7\.3 is not supported: the oldest known release is 0\.8\.0"
    ):
        catalogue().release_for("0.7.3")
    with pytest.raises(NotAVersionError, match="Write it like"):
        catalogue().release_for("newest")


def test_the_builds_own_list_wins_over_the_catalogue() -> None:
    listed = build_list()
    records = [record for record in listed["args"] if record["dest"] != "watermark"]
    records.append(
        {"dest": "plugin_level", "flags": ["--plugin-level"], "nargs": None, "parser_type": "int", "help": ""}
    )
    live = catalogue().from_option_list({**listed, "args": records})
    assert "watermark" not in live
    assert live["plugin_level"].kind == "int"


def test_an_option_is_found_by_any_of_its_names() -> None:
    flags = catalogue().flags("0.33.0")
    for name in (
        "gpu_memory_utilization",
        "gpu-memory-utilization",
        "--gpu-memory-utilization",
        "device_memory_utilization",
    ):
        found = find(name, flags)
        assert found is not None
        assert found.option == "--gpu-memory-utilization"
    for opposite in (
        "no_enable_prefix_caching",
        "disable_prefix_caching",
        "disable_log_requests",
        "enable_cascade_attn",
    ):
        assert find(opposite, flags) is None
    assert find("disable_log_stats", flags) is flags["disable_log_stats"]


def test_the_nearest_name_is_found() -> None:
    assert catalogue().nearest("max_num_sequences", "0.33.0") == "max_num_seqs"
    assert catalogue().nearest("zzzzqqqq", "0.33.0") is None


def test_the_committed_file_is_small_and_in_its_own_notation() -> None:
    text = DATA.read_text()
    assert len(text) < 200_000
    data = json.loads(text)
    assert harvest.dumps(harvest.fold(harvest.unfold(data))) == text


def test_folding_keeps_every_difference_between_releases() -> None:
    first = Flag("a", ("--a",), "int", default=1)
    changed = Flag("a", ("--a", "-a"), "int", default=2, choices=(1, 2))
    other = Flag("b", ("--b",), "bool", nargs=0, default=False)
    releases = {
        "0.9.0": {"a": first},
        "0.10.0": {"a": first, "b": other},
        "0.10.1": {"b": other},
        "0.11.0": {"a": changed},
    }
    folded = harvest.fold(releases)
    assert folded["releases"] == ["0.9.0", "0.10.0", "0.10.1", "0.11.0"]
    assert [span[:2] for span in folded["options"]["a"]["spans"]] == [["0.9.0", "0.10.0"], ["0.11.0", "0.11.0"]]
    assert harvest.unfold(json.loads(harvest.dumps(folded))) == releases


@pytest.mark.parametrize(
    ("text", "deprecated"),
    [
        ("[DEPRECATED] Disable logging requests.", True),
        ("(Deprecated) Maximum size of extra vocabulary.", True),
        ("--log-config-file is deprecated and will be removed.", True),
        ("Whether to allow deprecated quantization methods.", False),
        ("Enable deprecated Prometheus metrics that have been hidden.", False),
    ],
)
def test_a_help_text_declares_its_own_option_deprecated(text: str, deprecated: bool) -> None:
    assert says_deprecated(text) is deprecated


def test_a_help_line_is_one_sentence_on_one_line() -> None:
    assert first_sentence("Number of\nGPUs. More\n\nmuch more") == "Number of GPUs."
    assert len(first_sentence("x" * 500)) == 160


def test_versions_are_ordered_as_they_were_released() -> None:
    order = ["0.8.5", "0.8.5.post1", "0.9.0", "0.9.0.1", "0.9.2", "0.10.0rc1", "0.10.0", "0.10.1", "0.10.1.1", "0.10.2"]
    assert sorted({*order}, key=Version.parse) == order
