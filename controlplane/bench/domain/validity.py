"""Gates before statistics: may the numbers of a run, or of a pair of arms, be used at all?

A run behind a closed gate is invalid with its reasons; it is not a number. Warnings stay with the number.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

INVALID, WARNING = "invalid", "warning"

MAX_FAILED_SHARE = 0.001
MAX_TOKEN_DIFFERENCE = 0.005  # between arms, and between output asked for and got
MAX_PROMPT_MISS = 0.01  # of any single request against the prompt tokens aimed at

# The client has shaped the numbers when its event loop came late by more than this: at p95 all of them (invalid), at
# p99 only their tails, as one stall of a busy machine does (a warning) ...
MAX_LAG_MS = 20.0
# ... and by more than this share of the typical TTFT (20 ms on top of 1,000 is no distortion worth a run),
MAX_LAG_SHARE_OF_TTFT = 0.10
# or when its one core was nearly full.
MAX_CPU_SHARE = 0.90
# A p99 of fewer looks (one each 10 ms) is a maximum: a run that short is not judged by it.
MIN_LAG_TICKS = 100
# The server must have seen this share of the planned concurrency at least once, given enough samples to tell.
MIN_SEEN_CONCURRENCY = 0.95
MIN_SAMPLES_TO_JUDGE = 3


@dataclass(frozen=True)
class Reason:
    """Why a run is invalid, or what to know about it. `code` is stable, `sentence` is for people."""

    code: str
    sentence: str
    severity: str = INVALID


@dataclass(frozen=True)
class RunFacts:
    """What the gates of one run look at. Token sums are None when the server sent no usage."""

    planned: int
    ok: int
    failed: int
    cancelled: int
    truncated: int
    output_tokens: int | None
    planned_output_tokens: int | None  # None when answers may stop by themselves
    worst_prompt_miss: float | None  # largest |got − target| ÷ target; None without a target
    lag_p95_ms: float | None
    lag_p99_ms: float | None
    lag_ticks: int  # how many looks at the event loop lag_p99_ms rests on
    cpu_share: float | None
    ttft_p50_ms: float | None
    concurrency: int
    in_flight_seen: tuple[float, ...]  # running + waiting as the server reported them in the loaded window
    is_restarted: bool


def assess_run(facts: RunFacts) -> list[Reason]:
    """Every reason against a run, most basic first; empty means valid."""
    return [reason for gate in (_requests, _tokens, _instrument, _server) for reason in gate(facts)]


def assess_pair(
    *,
    baseline_output: Sequence[int | None],
    tuned_output: Sequence[int | None],
    baseline_prompt: Sequence[int | None],
    tuned_prompt: Sequence[int | None],
) -> list[Reason]:
    """Did both arms do the same work? Token sums of their runs; unlike output leaves per-token metrics comparable."""
    reasons = []
    if (share := _difference(baseline_prompt, tuned_prompt)) is not None and share > MAX_TOKEN_DIFFERENCE:
        sentence = (
            f"Prompt tokens of the arms differ by {share:.1%} (limit {MAX_TOKEN_DIFFERENCE:.1%}): not the same work."
        )
        reasons.append(Reason("prompt_token_parity", sentence))
    if (share := _difference(baseline_output, tuned_output)) is not None and share > MAX_TOKEN_DIFFERENCE:
        sentence = f"Output tokens of the arms differ by {share:.1%}: compare per-token numbers only."
        reasons.append(Reason("output_token_parity", sentence))
    return reasons


def _requests(facts: RunFacts) -> list[Reason]:
    reasons = []
    if facts.cancelled:
        reasons.append(
            Reason("incomplete", f"{facts.cancelled} of {facts.planned} requests were cancelled or never sent.")
        )
    if facts.failed > MAX_FAILED_SHARE * facts.planned:
        share = facts.failed / facts.planned
        sentence = f"{facts.failed} of {facts.planned} requests failed ({share:.1%}, limit {MAX_FAILED_SHARE:.1%})."
        reasons.append(Reason("failed_requests", sentence))
    if facts.truncated:
        reasons.append(Reason("truncated_streams", f"{facts.truncated} answers ended without a finish or [DONE]."))
    return reasons


def _tokens(facts: RunFacts) -> list[Reason]:
    reasons = []
    if facts.ok and facts.output_tokens is None:
        reasons.append(Reason("no_usage", "The server sent no usage, so tokens are not known."))
    elif not facts.output_tokens:
        reasons.append(Reason("no_tokens", "Not one output token was measured."))
    elif facts.planned_output_tokens:
        miss = abs(facts.output_tokens - facts.planned_output_tokens) / facts.planned_output_tokens
        if miss > MAX_TOKEN_DIFFERENCE:
            got, asked = f"{facts.output_tokens:,}", f"{facts.planned_output_tokens:,}"
            sentence = f"{got} output tokens came, {asked} were asked for ({miss:.1%} apart)."
            reasons.append(Reason("output_tokens_off_plan", sentence))
    if facts.worst_prompt_miss is not None and facts.worst_prompt_miss > MAX_PROMPT_MISS:
        sentence = f"A prompt missed its planned tokens by {facts.worst_prompt_miss:.1%} (limit {MAX_PROMPT_MISS:.0%})."
        reasons.append(Reason("prompt_tokens_off_plan", sentence))
    return reasons


def _instrument(facts: RunFacts) -> list[Reason]:
    reasons = []
    is_long_enough = facts.lag_ticks >= MIN_LAG_TICKS
    allowed_ms = max(MAX_LAG_MS, MAX_LAG_SHARE_OF_TTFT * (facts.ttft_p50_ms or 0.0))
    if is_long_enough and (facts.lag_p95_ms or 0.0) > allowed_ms:
        late = f"{facts.lag_p95_ms:.0f} ms at p95 (limit {allowed_ms:.0f} ms)"
        sentence = (
            f"Instrument-limited: the load generator was late by {late}. Give the host a core that the engine leaves "
            "free, or let the load generator go first: as root, or with kernel.sched_autogroup_enabled=0 there."
        )
        reasons.append(Reason("instrument_lag", sentence))
    elif is_long_enough and (facts.lag_p99_ms or 0.0) > allowed_ms:
        late = f"{facts.lag_p99_ms:.0f} ms at p99 (limit {allowed_ms:.0f} ms)"
        sentence = f"The load generator stalled at times, by {late}: p99 latencies may be its own."
        reasons.append(Reason("instrument_stalls", sentence, WARNING))
    if is_long_enough and facts.cpu_share is not None and facts.cpu_share > MAX_CPU_SHARE:
        used = f"{facts.cpu_share:.0%} of its core (limit {MAX_CPU_SHARE:.0%})"
        sentence = f"Instrument-limited: the load generator used {used}."
        reasons.append(Reason("instrument_cpu", sentence))
    seen = facts.in_flight_seen
    if len(seen) >= MIN_SAMPLES_TO_JUDGE and max(seen) < MIN_SEEN_CONCURRENCY * facts.concurrency:
        sentence = (
            f"The server never reported more than {max(seen):.0f} requests at once, {facts.concurrency} were planned."
        )
        # A server busy before its scheduler (tokenising) shows this too, so it is no proof against the client.
        reasons.append(Reason("concurrency_not_seen", sentence, WARNING))
    return reasons


def _server(facts: RunFacts) -> list[Reason]:
    return [Reason("server_restarted", "The server was restarted during the run.")] if facts.is_restarted else []


def _difference(first: Sequence[int | None], second: Sequence[int | None]) -> float | None:
    """How far the mean of one arm's known sums is from the other's; None when either has none."""
    known_first = [tokens for tokens in first if tokens is not None]
    known_second = [tokens for tokens in second if tokens is not None]
    if not known_first or not known_second or not sum(known_first):
        return None
    mean_first, mean_second = sum(known_first) / len(known_first), sum(known_second) / len(known_second)
    return abs(mean_second - mean_first) / mean_first
