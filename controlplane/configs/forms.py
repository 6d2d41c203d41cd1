"""What people type about configs. The rules are the services'; forms carry the input there and back."""

from typing import Any

from django import forms
from django.core.files.uploadedfile import UploadedFile
from django.utils.translation import gettext_lazy as _

from controlplane.configs.domain.document import MAX_BYTES
from controlplane.configs.domain.naming import MAX_NAME, is_name, key_names, place_of, value_of
from controlplane.configs.queries import Target, default_target, target_choices, target_named
from controlplane.core.errors import Problem

CODE = {"class": "code", "spellcheck": "false", "autocapitalize": "off", "autocomplete": "off"}


class TargetField(forms.ChoiceField):
    """An engine or a release; its cleaned value is a Target."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(choices=target_choices, required=False, **kwargs)

    def clean(self, value: Any) -> Target:
        try:
            return target_named(str(value)) if value else default_target()
        except Problem as problem:
            raise forms.ValidationError(f"{problem.sentence} {problem.remedy}") from None


class ImportForm(forms.Form):
    """A config as a file or as text, and what to check it against. `raw` in the cleaned data are its bytes."""

    file = forms.FileField(
        label=_("File"),
        required=False,
        allow_empty_file=True,
        widget=forms.FileInput(attrs={"accept": ".toml,text/plain"}),
        help_text=_("TOML, at most 64 KiB. It is kept byte for byte, except for a plain api_key."),
    )
    toml = forms.CharField(
        label=_("Or paste it"),
        required=False,
        strip=False,
        widget=forms.Textarea(attrs={"rows": 18, **CODE}),
    )
    name = forms.CharField(
        label=_("Name"),
        required=False,
        max_length=MAX_NAME,
        help_text=_("Left empty: after the served model. The name of a config that is there adds a version to it."),
    )
    note = forms.CharField(label=_("Note"), required=False, help_text=_("Why this version: what changed, what for."))
    target = TargetField(label=_("Check it for"), help_text=_("Only a check: the config can run anywhere later."))

    def clean_name(self) -> str:
        name = str(self.cleaned_data["name"])
        if name and not is_name(name):
            raise forms.ValidationError(_("Use letters, digits, - and _, at most 100, not only digits."))
        return name

    def clean(self) -> dict[str, Any]:
        data: dict[str, Any] = super().clean() or {}
        file, text = data.get("file"), data.get("toml") or ""
        if file is not None and text.strip():
            self.add_error("file", _("There is a file and a text. Remove one of the two: only one can be imported."))
        elif file is None and not text.strip():
            self.add_error("toml", _("Choose a file or paste the text of a config."))
        data["raw"] = text.replace("\r\n", "\n").encode() if file is None else self._bytes_of(file)
        return data

    def _bytes_of(self, file: "UploadedFile[Any]") -> bytes:
        """Not read at all when it is far too large to be a config."""
        if file.size is not None and file.size > MAX_BYTES:
            message = _("The file has %(size)d bytes; a config has at most %(most)d. Check that it is the right file.")
            self.add_error("file", message % {"size": file.size, "most": MAX_BYTES})
            return b""
        return bytes(file.read())


class ChangeForm(forms.Form):
    """One key of a version with another value. `values` are what the services take."""

    key = forms.CharField(
        label=_("Key"),
        max_length=200,
        widget=forms.TextInput(attrs={"list": "config-keys", "spellcheck": "false", "autocapitalize": "off"}),
        help_text=_("max_num_seqs, or any option of vLLM."),
    )
    value = forms.CharField(
        label=_("Value"),
        required=False,
        max_length=4000,
        widget=forms.TextInput(attrs={"spellcheck": "false", "autocapitalize": "off", "autocomplete": "off"}),
        help_text=_("128, true, awq, [1, 2]. Left empty: the key is removed."),
    )
    note = forms.CharField(label=_("Note"), required=False, help_text=_("What it is meant to do."))

    @property
    def known_keys(self) -> list[str]:
        return key_names()

    def values(self) -> dict[tuple[str, str], Any]:
        place = place_of(self.cleaned_data["key"])
        return {place: value_of(self.cleaned_data["value"], place)}


class ConfigForm(forms.Form):
    """Name and purpose of a config."""

    name = forms.CharField(label=_("Name"), max_length=MAX_NAME)
    description = forms.CharField(
        label=_("What it is for"), required=False, max_length=4000, widget=forms.Textarea(attrs={"rows": 3})
    )
