"""A process that was ended from outside, and logs of servers that were well: nothing is made up about either."""

import pytest

from controlplane.fleet.domain.diagnosis import scene_of
from controlplane.fleet.domain.failures import RULES
from controlplane.fleet.tests.log_samples import HEALTHY_UNTIL, UP, diagnose, healthy, sample, until


@pytest.mark.parametrize("name", ["startup.log", "startup-and-load-eager.log", "kill-sigkill-engine.log"])
@pytest.mark.parametrize(
    ("needle", "step", "evidence"),
    [
        ("version 0.32.0", "before the weights were loaded", ""),
        ("Starting to load model", "before the weights were loaded", ""),
        ("shards:   0% Completed", "before the weights were loaded", "Loading safetensors checkpoint shards:   0% Com"),
        ("KV cache layout", "after the weights", "Loading weights took"),
        ("init engine (profile", "after the KV cache was made", "CPU KV cache size: "),
        ("Available routes", "after the KV cache was made", "CPU KV cache size: "),
        ("Application startup complete", "while it was listening", ""),
    ],
)
def test_a_killed_server_shows_how_far_it_was_and_not_what_it_wrote_last(
    name: str, needle: str, step: str, evidence: str
) -> None:
    log = until(name, needle)
    found = diagnose(log, -9)
    assert (found.code, step in found.sentence) == ("killed", True), found
    assert found.evidence_line.startswith(evidence)
    assert bool(found.evidence_line) == bool(evidence)
    assert found.line_number is None or evidence in log.split("\n")[found.line_number - 1]
    assert (found.line_number is None) == (not evidence)


@pytest.mark.parametrize("name", HEALTHY_UNTIL)
def test_no_rule_fires_anywhere_in_the_log_of_a_healthy_server(name: str) -> None:
    scene = scene_of(healthy(name))
    assert scene.facts.startup_complete
    assert len(scene.lines) > 90
    fired = [
        (rule.code, line.message)
        for index, line in enumerate(scene.lines)
        for rule in RULES
        if rule.match(scene, index)
    ]
    assert fired == []


@pytest.mark.parametrize("name", HEALTHY_UNTIL)
def test_traffic_is_never_the_evidence_of_a_kill(name: str) -> None:
    found = diagnose(healthy(name), -9)
    assert (found.code, found.evidence_line, found.line_number) == ("killed", "", None)


WAIT = (
    "(EngineCore pid=1) INFO 11-29 11:53:54 [s.py:1] No available shared memory broadcast block found in 60 seconds.\n"
)


def test_a_wait_that_the_start_got_past_explains_nothing() -> None:
    assert diagnose(WAIT).code == "shm_wait"
    assert diagnose(WAIT * 3 + "INFO 11-29 12:00:00 [a.py:1] still compiling\n").code == "shm_wait"
    kv_cache = "(EngineCore pid=1) INFO 11-29 11:54:34 [kv.py:1] CPU KV cache size: 1,048,576 tokens\n"
    assert diagnose(f"{WAIT}{kv_cache}RuntimeError: odd\n").evidence_line == "RuntimeError: odd"
    death = (
        "(EngineCore pid=1) ERROR 11-29 11:54:35 [x.py:1] Worker proc VllmWorker-0 died unexpectedly, shutting down\n"
    )
    assert diagnose(WAIT + death).code == "worker_died"


@pytest.mark.parametrize(
    ("name", "evidence"),
    [
        ("kill-sigkill-engine.log", "[shutdown] MPClient: engine core exited unexpectedly"),
        ("kill-sigkill-worker.log", "Worker proc VllmWorker-0 died unexpectedly"),
        ("sigterm-inflight-hang-2.log", "[shutdown] API server: shutdown triggered"),
    ],
)
def test_a_symptom_before_a_kill_is_its_evidence(name: str, evidence: str) -> None:
    found = diagnose(sample(name), -9)
    assert found.code == "killed"
    assert found.evidence_line.startswith(evidence)


@pytest.mark.parametrize(
    "line",
    [
        "Fatal Python error: Segmentation fault",
        "!!!!!!! Segfault encountered !!!!!!!",
        "terminate called after throwing an instance of 'std::runtime_error'",
        "free(): invalid pointer",
        "double free or corruption (!prev)",
        "python3: malloc.c:2617: sysmalloc: Assertion `(old_top == initial_top (av))' failed.",
    ],
)
def test_the_words_of_a_crash_are_its_evidence_wherever_they_stand(line: str) -> None:
    for log in (f"{line}\n", f"{UP}{line}\n", f"{UP}{line}\n  what():  odd\n\nINFO:     127.0.0.1:1 - 200 OK\n"):
        found = diagnose(log, -6)
        assert (found.code, found.evidence_line) == ("killed", line)


def test_an_error_before_a_kill_is_shown_while_starting_and_not_once_clients_cause_errors() -> None:
    error = "ERROR 11-29 11:55:20 [serving.py:1] Error with model error=ErrorInfo(message='no such thing')"
    assert diagnose(f"starting\n{error}\nwaiting\n", -9).line_number == 2
    assert diagnose(f"{UP}{error}\nwaiting\n", -9).line_number is None
