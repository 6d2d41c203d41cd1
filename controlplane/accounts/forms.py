"""Forms of the settings pages and of the login page."""

from datetime import datetime, time, timedelta
from typing import Any, cast

from django import forms
from django.conf import settings
from django.contrib.auth import password_validation
from django.contrib.auth.forms import AuthenticationForm
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from controlplane.accounts.models import Role

AS_THE_BROWSER = "auto"


class LoginForm(AuthenticationForm):
    """Django's, which answers alike for a wrong password, an unknown name and a deactivated person."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["username"].widget.attrs.update(autocomplete="username", autofocus=True)


class PasswordForm(forms.Form):
    old = forms.CharField(
        label=_("Present password"),
        strip=False,
        max_length=256,
        widget=forms.PasswordInput(attrs={"autocomplete": "current-password"}),
    )
    new = forms.CharField(
        label=_("New password"),
        strip=False,
        max_length=256,
        widget=forms.PasswordInput(attrs={"autocomplete": "new-password"}),
    )
    again = forms.CharField(
        label=_("New password, again"),
        strip=False,
        max_length=256,
        widget=forms.PasswordInput(attrs={"autocomplete": "new-password"}),
    )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["new"].help_text = " ".join(password_validation.password_validators_help_texts())

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or {}
        if cleaned.get("new") and cleaned.get("again") and cleaned["new"] != cleaned["again"]:
            self.add_error("again", _("The two do not match."))
        return cleaned


class LanguageForm(forms.Form):
    language = forms.ChoiceField(label=_("Of the pages"))

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        field = cast(forms.ChoiceField, self.fields["language"])
        field.choices = [(AS_THE_BROWSER, _("As the browser asks")), *settings.LANGUAGES]

    def chosen(self) -> str:
        """A language code; "" follows the browser."""
        code: str = self.cleaned_data["language"]
        return "" if code == AS_THE_BROWSER else code


class TokenForm(forms.Form):
    name = forms.CharField(
        label=_("Name"), max_length=100, help_text=_("What will use it, for example “nightly CI”."), strip=True
    )
    expires_on = forms.DateField(
        label=_("Ends on"),
        required=False,
        help_text=_("The last day it works. Empty: until it is revoked."),
        widget=forms.DateInput(attrs={"type": "date"}, format="%Y-%m-%d"),
    )
    is_read_only = forms.BooleanField(label=_("Read only"), required=False)

    def expires_at(self) -> datetime | None:
        """The end of the chosen day in the installation's time zone; None: never."""
        day = self.cleaned_data["expires_on"]
        if day is None:
            return None
        return timezone.make_aware(datetime.combine(day + timedelta(days=1), time.min))


class PersonForm(forms.Form):
    username = forms.CharField(label=_("Name"), max_length=150)
    role = forms.ChoiceField(label=_("Role"), choices=Role.choices, initial=Role.OPERATOR)
