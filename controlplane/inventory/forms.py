"""What people type about hosts and models. The rules are the services'; forms carry the input there and back."""

from collections.abc import Sequence
from typing import Any

from django import forms
from django.utils.translation import gettext_lazy as _

from controlplane.core.models import Secret
from controlplane.inventory.models import Host, ModelArtifact
from controlplane.inventory.services import SshAccess

NEW_KEY, PRESENT_KEY = "-new-", "-present-"
SSH_FIELDS = ("address", "port", "username", "key_name")


class UnshownTextarea(forms.Textarea):
    """A secret is never written into a page, not even back to whoever pasted it."""

    def format_value(self, value: Any) -> str:
        return ""


class LinesField(forms.CharField):
    """One entry a line."""

    widget = forms.Textarea(attrs={"rows": 3, "spellcheck": "false"})

    def to_python(self, value: Any) -> Any:
        return [line.strip() for line in str(value or "").splitlines() if line.strip()]

    def prepare_value(self, value: Any) -> Any:
        return "\n".join(value) if isinstance(value, list) else value


class HostForm(forms.Form):
    """Add a host (`is_new`) or change one."""

    name = forms.CharField(label=_("Name"), max_length=80, help_text=_("How pages and the API call this host."))
    transport = forms.ChoiceField(
        label=_("How it is reached"),
        choices=[(Host.Transport.SSH, _("Over SSH")), (Host.Transport.LOCAL, _("It is this machine"))],
        initial=Host.Transport.SSH,
        help_text=_("This machine needs no address and no key."),
    )
    address = forms.CharField(
        label=_("Address"), max_length=255, required=False, help_text=_("Host name or IP address.")
    )
    port = forms.IntegerField(label=_("SSH port"), initial=22, required=False)
    username = forms.CharField(
        label=_("User"), max_length=80, required=False, help_text=_("The account that runs vLLM there; no root needed.")
    )
    key_name = forms.ChoiceField(label=_("SSH key"), required=False)
    new_key = forms.CharField(
        label=_("New private key"),
        error_messages={"required": _("Paste the private key, or choose a stored one above.")},
        strip=False,
        widget=UnshownTextarea(attrs={"rows": 6, "class": "key", "spellcheck": "false", "autocomplete": "off"}),
        help_text=_("Kept encrypted and never shown again; after an error it has to be pasted anew."),
    )
    jump_host = forms.ChoiceField(label=_("Through jump host"), required=False)
    expected_fingerprint = forms.CharField(
        label=_("Expected host key fingerprint"),
        max_length=120,
        required=False,
        help_text=_("SHA256:…, if you know it. A matching key is pinned without asking, another one is refused."),
    )
    engine_paths = LinesField(
        label=_("Where vLLM is"),
        required=False,
        help_text=_("Only if it is in no usual place: paths of executables, one a line; * is allowed."),
    )
    note = forms.CharField(label=_("Note"), required=False, widget=forms.Textarea(attrs={"rows": 2}))

    def __init__(self, *args: Any, host: Host | None = None, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        stored = Secret.objects.filter(kind=Secret.Kind.SSH_KEY).values_list("name", "hint")
        keys = [(name, f"{name} ({hint})") for name, hint in stored]
        present = [(PRESENT_KEY, _("Keep the present one"))] if host is not None and host.ssh_key_id else []
        self.fields["key_name"] = forms.ChoiceField(
            label=_("SSH key"),
            required=False,
            choices=[*present, (NEW_KEY, _("A new one, pasted below")), *keys],
        )
        others = Host.objects.filter(transport=Host.Transport.SSH).values_list("name", flat=True)
        names = [("", _("Direct")), *((name, name) for name in others if host is None or name != host.name)]
        self.fields["jump_host"] = forms.ChoiceField(label=_("Through jump host"), required=False, choices=names)
        self.order_fields(HostForm.base_fields)
        if host is not None:
            del self.fields["name"], self.fields["transport"]
        is_local = host.is_local if host else self.data.get("transport") == Host.Transport.LOCAL
        for name in SSH_FIELDS:
            self.fields[name].required = not is_local
        self.fields["new_key"].required = not is_local and self.data.get("key_name", NEW_KEY) == NEW_KEY

    def access(self, *, is_ssh: bool) -> SshAccess | None:
        """How to reach it, as the services want it."""
        if not is_ssh:
            return None
        data = self.cleaned_data
        is_stored = data["key_name"] not in {NEW_KEY, PRESENT_KEY}
        return SshAccess(
            **{name: data[name] for name in ("address", "username", "port", "jump_host", "expected_fingerprint")},
            key_name=data["key_name"] if is_stored else "",
            new_key=data["new_key"] if data["key_name"] == NEW_KEY else "",
        )


class ModelForm(forms.Form):
    """Add a model."""

    source = forms.ChoiceField(
        label=_("Where the weights are"),
        choices=ModelArtifact.Source.choices,
        initial=ModelArtifact.Source.PATH,
    )
    location = forms.CharField(
        label=_("Path or repository id"),
        max_length=500,
        help_text=_("/models/qwen2.5-32b-instruct-awq, or Qwen/Qwen2.5-32B-Instruct-AWQ."),
    )
    revision = forms.CharField(
        label=_("Revision"),
        max_length=120,
        required=False,
        help_text=_("Of a repository. With a full commit the host's download cache can be read."),
    )
    name = forms.CharField(
        label=_("Name"), max_length=190, required=False, help_text=_("Left empty: the last part of path or id.")
    )
    hosts = forms.MultipleChoiceField(
        label=_("Look on these hosts"),
        required=False,
        widget=forms.CheckboxSelectMultiple,
        help_text=_("The files are read there: architecture, parameters, size. Nothing is copied."),
    )
    note = forms.CharField(label=_("Note"), required=False, widget=forms.Textarea(attrs={"rows": 2}))

    def __init__(self, *args: Any, host_names: Sequence[str] = (), **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["hosts"].choices = [(name, name) for name in host_names]  # type: ignore[attr-defined]
