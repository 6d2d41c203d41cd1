"""vLLM version numbers: reading and ordering what engines call themselves."""

import re
from dataclasses import dataclass, field
from typing import Self

_SHAPE = re.compile(
    r"""v?(?P<numbers>\d+(?:\.\d+)+)
        (?:\.?(?P<phase>a|b|rc|post|dev)(?P<count>\d+))?
        (?:\.dev\d+)?
        (?:\+[a-z0-9._-]+)?""",
    re.VERBOSE | re.IGNORECASE,
)
_BEFORE, _FINAL, _AFTER = -1, 0, 1


class NotAVersionError(ValueError):
    """The text is not a vLLM version."""

    def __init__(self, text: str) -> None:
        super().__init__(f"“{text}” is not a vLLM version. Write it like 0.32.0.")


@dataclass(frozen=True, order=True, slots=True)
class Version:
    """A comparable version. `numbers` are padded to four (0.9.0.1 exists); local parts (`+cpu`) do not count.

    `phase` is -1 for candidates and development builds, 0 for releases, 1 for post releases.
    """

    numbers: tuple[int, ...]
    phase: int = _FINAL
    count: int = 0
    text: str = field(default="", compare=False)

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read `0.32.0`, `v0.9.0.1`, `0.8.5.post1`, `0.11.1rc2`, `0.32.0+cpu`, `0.11.1.dev12+g1a2b3c`.

        Raises NotAVersionError.
        """
        found = _SHAPE.fullmatch(text.strip())
        if found is None:
            raise NotAVersionError(text)
        numbers = [int(part) for part in found["numbers"].split(".")]
        padded = tuple([*numbers, 0, 0, 0, 0][: max(4, len(numbers))])
        word = (found["phase"] or "").lower()
        phase = _AFTER if word == "post" else _BEFORE if word else _FINAL
        return cls(padded, phase, int(found["count"] or 0), text.strip())

    @property
    def minor(self) -> tuple[int, ...]:
        """(0, 32) of 0.32.1."""
        return self.numbers[:2]

    @property
    def final(self) -> "Version":
        """The release that a candidate or development build leads to; itself otherwise."""
        return self if self.phase != _BEFORE else Version(self.numbers, text=self.text)

    @property
    def is_before_release(self) -> bool:
        return self.phase == _BEFORE
