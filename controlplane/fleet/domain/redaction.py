"""Taking keys out of text before it is shown or stored.

vLLM prints its arguments when it starts: older releases with the key in clear, and an operator's wrapper may echo a
whole command line. Everything the rules hand to a page passes through `redact`.
"""

import re

HIDDEN = "•••"

# Each pattern keeps what stands before the secret (`keep`) so that a reader still sees which key was meant.
_PATTERNS = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        # --api-key X, --api-key=X, --hf-token "X"
        r"(?P<keep>--(?:api|hf)[-_](?:key|token)(?:=|\s+)(?:['\"])?)(?P<secret>(?!--)[^\s'\",]+)",
        # api_key='X', "hf_token": "X", 'api_key': ['X', 'Y']
        r"(?P<keep>['\"]?\b(?:api_key|hf_token|auth_token|access_token|password"
        r"|secret)['\"]?\s*[=:]\s*\[)(?P<secret>[^\]]*)",
        r"(?P<keep>['\"]?\b(?:api_key|hf_token|auth_token|access_token|password|secret)['\"]?\s*[=:]\s*(?P<q>['\"]))"
        r"(?P<secret>(?:(?!(?P=q)).)*)",
        # api_key=X without quotes (Namespace(api_key=None) stays as it is)
        r"(?P<keep>\b(?:api_key|hf_token)\s*=\s*)(?P<secret>(?!None\b|•)[^\s'\",)\[]+)",
        # VLLM_API_KEY=X, HF_TOKEN=X, OPENAI_API_KEY: X
        r"(?P<keep>\b[A-Z][A-Z0-9_]*(?:API_KEY|_TOKEN|_SECRET"
        r"|PASSWORD)\s*[=:]\s*['\"]?)(?P<secret>(?!None\b|•)[^\s'\",)]+)",
        r"(?P<keep>\bBearer\s+)(?P<secret>[^\s'\",]+)",
        r"(?P<keep>\b)(?P<secret>hf_[A-Za-z0-9]{8,})",
        r"(?P<keep>\b)(?P<secret>sk-[A-Za-z0-9_-]{8,})",
        r"(?P<keep>://[^\s:/@]+:)(?P<secret>[^\s@/]+)(?=@)",
    )
)


def redact(text: str) -> str:
    """Return `text` with every key, token and password replaced by •••."""
    for pattern in _PATTERNS:
        text = pattern.sub(lambda found: f"{found['keep']}{HIDDEN}" if found["secret"] else found[0], text)
    return text
