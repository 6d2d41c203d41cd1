"""Every pair of tokens that meets on a page reaches WCAG AA: 4.5 for text, 3 for shapes and the edges of controls."""

import hashlib
import re
from itertools import product
from pathlib import Path

import pytest
from django.conf import settings

STATIC = Path(settings.BASE_DIR) / "static"
TOKENS: dict[str, tuple[str, str]] = {
    name: (light, dark)
    for name, light, dark in re.findall(
        r"--([\w-]+): light-dark\((#[0-9a-f]{6}), (#[0-9a-f]{6})\);", (STATIC / "css/tokens.css").read_text()
    )
}
GROUNDS = ("bg", "bg-soft", "bg-hover")
TEXT = [
    *product(("text", "text-muted", "accent", "ok", "warn", "bad"), GROUNDS),
    *product(("text", "text-muted"), ("accent-soft", "ok-soft", "warn-soft", "bad-soft")),
    ("accent", "accent-soft"), ("ok", "ok-soft"), ("warn", "warn-soft"), ("bad", "bad-soft"),
    ("on-accent", "accent"), ("on-bad", "bad"),
]  # fmt: skip
SHAPES = [
    *product((f"series-{i}" for i in range(1, 7)), ("bg",)),
    *product(("rule-strong",), ("bg", "bg-soft")),
    *product(("accent", "warn", "bad"), ("bg-hover",)),
]


def luminance(colour: str) -> float:
    """Relative luminance of #rrggbb as WCAG 2.2 defines it."""
    channels = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    lighter, darker = sorted((luminance(one), luminance(other)), reverse=True)
    return (lighter + 0.05) / (darker + 0.05)


def test_black_on_white_has_the_contrast_of_the_definition() -> None:
    assert contrast("#000000", "#ffffff") == pytest.approx(21)


@pytest.mark.parametrize("scheme", [0, 1], ids=["light", "dark"])
@pytest.mark.parametrize(("front", "ground"), TEXT)
def test_text_can_be_read(front: str, ground: str, scheme: int) -> None:
    assert contrast(TOKENS[front][scheme], TOKENS[ground][scheme]) >= 4.5


@pytest.mark.parametrize("scheme", [0, 1], ids=["light", "dark"])
@pytest.mark.parametrize(("front", "ground"), SHAPES)
def test_shapes_can_be_seen(front: str, ground: str, scheme: int) -> None:
    assert contrast(TOKENS[front][scheme], TOKENS[ground][scheme]) >= 3


def test_no_stylesheet_names_a_colour_outside_the_tokens() -> None:
    for sheet in (STATIC / "css").glob("*.css"):
        if sheet.name != "tokens.css":
            assert not re.findall(r"#[0-9a-fA-F]{3,8}\b(?=[;, )])", sheet.read_text()), sheet.name


def test_vendored_files_are_the_ones_whose_hashes_are_written_down() -> None:
    folder = STATIC / "vendor/uplot"
    lines = [line.split() for line in (folder / "SHA256SUMS").read_text().splitlines()]
    assert {name for _, name in lines} == {path.name for path in folder.iterdir()} - {"SHA256SUMS"}
    for digest, name in lines:
        assert hashlib.sha256((folder / name).read_bytes()).hexdigest() == digest, name
