"""Forms of the secrets page. Text areas keep the line ends of keys; what was typed is never sent back."""

from typing import Any

from django import forms
from django.utils.translation import gettext_lazy as _

from controlplane.core.models import Secret

LONGEST_TEXT = 100_000


class SecretArea(forms.Textarea):
    """A text area that never shows what was typed before, not even when the form comes back with errors."""

    def format_value(self, value: Any) -> str | None:
        return ""


def _text_field() -> forms.CharField:
    return forms.CharField(
        label=_("Text"),
        max_length=LONGEST_TEXT,
        strip=False,
        widget=SecretArea(attrs={"rows": 4, "spellcheck": "false", "autocomplete": "off"}),
        help_text=_("It is encrypted at once and never shown again."),
    )


class SecretForm(forms.Form):
    name = forms.CharField(
        label=_("Name"),
        max_length=120,
        help_text=_("Lower-case letters, digits, - and _. Configs refer to it by this."),
    )
    kind = forms.ChoiceField(label=_("Kind"), choices=Secret.Kind.choices)
    text = _text_field()
    hint = forms.CharField(
        label=_("Hint"),
        max_length=200,
        required=False,
        help_text=_("What helps to recognise it, for example a fingerprint; never a part of it."),
    )

    def clean_text(self) -> str:
        return tidy(self.cleaned_data["text"], kind=str(self.cleaned_data.get("kind", "")))


class ReplaceSecretForm(forms.Form):
    text = _text_field()
    hint = forms.CharField(label=_("Hint"), max_length=200, required=False)

    def clean_text(self) -> str:
        text: str = self.cleaned_data["text"]
        return tidy(text, kind=Secret.Kind.SSH_KEY if "PRIVATE KEY" in text else Secret.Kind.API_KEY)


def tidy(text: str, *, kind: str) -> str:
    """A browser sends line ends as CR LF, which OpenSSH refuses in a key; an API key has no white space around it."""
    text = text.replace("\r\n", "\n")
    return text if kind == Secret.Kind.SSH_KEY else text.strip()
