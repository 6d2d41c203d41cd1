"""Keys do not survive being shown."""

import pytest

from controlplane.fleet.domain.redaction import redact

SECRET = "zw7Kq-very_Secret.99"


@pytest.mark.parametrize(
    "text",
    [
        f"vllm serve m --api-key {SECRET} --port 8000",
        f"--api-key={SECRET}",
        f'--api_key "{SECRET}"',
        f"--hf-token {SECRET}",
        f"non-default args: {{'port': 1, 'api_key': '{SECRET}', 'model': 'x'}}",
        f"args: {{'api_key': ['{SECRET}', 'b{SECRET}'], 'model': 'x'}}",
        f"Namespace(api_key='{SECRET}', port=1)",
        f'{{"hf_token": "{SECRET}"}}',
        f"VLLM_API_KEY={SECRET} vllm serve",
        f"export HF_TOKEN='{SECRET}'",
        f"Authorization: Bearer {SECRET}",
        f"http://user:{SECRET}@proxy:3128/",
        f"hf_{'a1B2' * 8}{SECRET}",
    ],
)
def test_a_key_is_hidden_in_every_dress(text: str) -> None:
    shown = redact(text)
    assert SECRET not in shown
    assert "•••" in shown
    assert redact(shown) == shown


def test_bare_keys_of_known_shape_are_hidden() -> None:
    assert redact("got sk-abcdefgh12345678 and hf_abcdefgh12345678") == "got ••• and •••"


@pytest.mark.parametrize(
    "text",
    [
        "Namespace(api_key=None, port=1)",
        "max_num_batched_tokens=8192 tokenizer=x",
        "argument --api-key/--port",
        "KV cache size: 65,536 tokens, Maximum concurrency",
        "HF_TOKEN=None",
    ],
)
def test_what_is_no_key_stays(text: str) -> None:
    assert redact(text) == text
