"""The way back in for somebody who lost the password."""

import io
from collections.abc import Callable

import pytest
from django.core.management import CommandError, call_command

from controlplane.accounts import services
from controlplane.accounts.models import User
from controlplane.core.models import Event


def reset(*args: str) -> str:
    out = io.StringIO()
    call_command("reset_password", *args, stdout=out)
    return out.getvalue()


def test_it_prints_a_password_that_works_and_keeps_it_out_of_the_log(person: Callable[[str], User]) -> None:
    person("admin")
    password = reset("admin").splitlines()[0].rpartition(": ")[2]
    user = User.objects.get(username="admin")
    assert user.check_password(password)
    assert user.must_change_password
    assert password not in str(list(Event.objects.values()))


def test_a_wrong_name_is_answered_with_the_names_there_are(person: Callable[[str], User]) -> None:
    person("admin")
    with pytest.raises(CommandError, match=r"nobody called root\. There is: admin"):
        reset("root")


def test_somebody_deactivated_stays_out_unless_asked(person: Callable[[str], User]) -> None:
    person("admin")
    services.deactivate_person(person("viewer"), actor="admin")
    with pytest.raises(CommandError, match="--activate"):
        reset("viewer")
    reset("viewer", "--activate")
    assert User.objects.get(username="viewer").is_active
