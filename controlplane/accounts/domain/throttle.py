"""How long somebody who keeps guessing a password has to wait."""

FREE_TRIES = 5
"""Wrong passwords from one address for one name before a wait begins."""
FREE_TRIES_FOR_NAME = 50
"""The same from all addresses together: high, so that nobody can lock a person out cheaply from somewhere else."""
FIRST_WAIT_S = 5
LONGEST_WAIT_S = 15 * 60
FORGET_AFTER_S = 60 * 60
"""After this long without a try the count starts anew."""


def wait_s(tries: int, *, free: int = FREE_TRIES) -> int:
    """Seconds until the next try, after `tries` wrong ones: 0 while they are free, then doubling to the longest."""
    if tries < free:
        return 0
    return int(min(LONGEST_WAIT_S, FIRST_WAIT_S * 2 ** min(tries - free, 20)))
