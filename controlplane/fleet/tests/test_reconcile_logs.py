"""Copying a log: whole lines, once each, keys taken out, whatever bytes a process writes."""

from controlplane.fleet import queries
from controlplane.fleet.models import Attempt, LogChunk
from controlplane.fleet.reconcile import logs
from controlplane.fleet.tests.fake_world import FakeWorld, attempt_of


def started(world: FakeWorld, log: str) -> Attempt:
    instance = world.request(log=log)
    world.step(instance)
    attempt = attempt_of(instance)
    attempt.instance = instance
    return attempt


def copied(attempt: Attempt) -> str:
    return logs.log_text(attempt)


def test_a_line_is_taken_when_it_is_whole(world: FakeWorld) -> None:
    attempt = started(world, "first\nsec")
    logs.copy_log(attempt)
    assert copied(attempt) == "first\n"
    world.machine.print_log(attempt.launch_id, "ond\nthird")
    logs.copy_log(attempt)
    assert copied(attempt) == "first\nsecond\n"
    logs.copy_log(attempt, is_over=True)
    assert copied(attempt) == "first\nsecond\nthird"
    assert [row.number for row in queries.log_lines(attempt).lines] == [1, 2, 3]


def test_copying_again_adds_nothing(world: FakeWorld) -> None:
    attempt = started(world, "first\n")
    for _ in range(3):
        logs.copy_log(attempt)
    assert LogChunk.objects.filter(attempt=attempt).count() == 1


def test_a_worker_that_goes_on_from_the_row_reads_on_where_the_other_stopped(world: FakeWorld) -> None:
    attempt = started(world, "INFO 11-29 10:00:00 [a.py:1] Model loading took 1.0 GiB memory and 2.0 seconds\n")
    logs.copy_log(attempt)
    again = Attempt.objects.select_related("instance__host").get(pk=attempt.pk)
    world.machine.print_log(attempt.launch_id, "GPU KV cache size: 20,480 tokens\n")
    facts = logs.copy_log(again)
    assert (facts.weights_bytes, facts.kv_cache_tokens) == (1024**3, 20_480)
    assert again.startup["kv_cache_tokens"] == 20_480


def test_keys_never_reach_the_database(world: FakeWorld) -> None:
    attempt = started(world, "args: --api-key sk-very-secret-key-1234\nVLLM_API_KEY=abc")
    world.machine.print_log(attempt.launch_id, "defghi\n")
    logs.copy_log(attempt)
    rows = str(list(Attempt.objects.values())) + copied(attempt)
    assert "sk-very-secret" not in rows
    assert "abcdefghi" not in rows


def test_a_log_with_broken_bytes_and_a_nul_is_still_a_log(world: FakeWorld) -> None:
    attempt = started(world, "")
    world.machine._launches[attempt.launch_id].log = b"ok\nbro\xffken\x00 line\nla\xfest"
    logs.copy_log(attempt)
    world.machine.print_log(attempt.launch_id, " end\nmore\n")
    logs.copy_log(attempt, is_over=True)
    text = copied(attempt)
    assert "bro\ufffdken␀ line\n" in text
    assert text.endswith("more\n")
    assert attempt.log_bytes == len(world.machine._launches[attempt.launch_id].log)


def test_a_long_log_comes_in_pieces_and_the_end_can_be_shown(world: FakeWorld) -> None:
    count = 20_000
    attempt = started(world, "".join(f"line {number}\n" for number in range(1, count + 1)) * 2)
    logs.copy_log(attempt)
    assert LogChunk.objects.filter(attempt=attempt).count() > 1
    assert [row.number for row in queries.last_lines(attempt, 2).lines] == [2 * count - 1, 2 * count]
    middle = queries.log_lines(attempt, after_line=count, limit=1)
    assert [(row.number, row.text) for row in middle.lines] == [(count + 1, "line 1")]
    assert not middle.is_end
