"""Small wording tools of the rules: marking texts for translation and writing numbers with their unit."""

GIB = 1024**3
GB = 1000**3


def gettext_noop(text: str) -> str:
    """Mark `text` for the translators (makemessages finds the name) and return it unchanged.

    Domain code may not import Django; the page translates `template` and fills in `params`.
    """
    return text


def grouped(number: float) -> str:
    """Write 20480 as "20,480"."""
    return f"{int(number):,}"


def gib(size_bytes: float) -> str:
    """Write a size in GiB with two decimals, or in MiB where GiB would show as 0.00."""
    if abs(size_bytes) < GIB / 100:
        return f"{size_bytes / 1024**2:.2f} MiB"
    return f"{size_bytes / GIB:.2f} GiB"
