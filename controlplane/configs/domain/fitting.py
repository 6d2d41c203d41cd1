"""Whether an option takes a value: its kind, and its choices."""

from typing import Any

from .flags import Flag
from .values import expected, fits


def fits_flag(value: Any, flag: Flag) -> bool:
    """Whether the value is of the option's kind."""
    if flag.kind == "bool":
        return fits(value, "bool")
    # `--hf-token` alone, without a value.
    if flag.nargs == "?" and isinstance(value, bool):
        return True
    kind = flag.scalar_kind
    if flag.takes_many:
        items = value if isinstance(value, list) else [value]
        # LoRA modules and the like may be given as JSON objects.
        return bool(items) and all(fits(item, kind) or (kind == "str" and isinstance(item, dict)) for item in items)
    return fits(value, kind)


def wanted(flag: Flag) -> str:
    """What to write for the option, in words."""
    return f"a list of {expected(flag.scalar_kind)}" if flag.takes_many else expected(flag.kind)


def not_a_choice(value: Any, flag: Flag) -> Any | None:
    """The first value that is not among the choices."""
    if flag.choices is None:
        return None
    allowed = {str(choice) for choice in flag.choices}
    return next((item for item in (value if isinstance(value, list) else [value]) if str(item) not in allowed), None)
