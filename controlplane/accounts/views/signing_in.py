"""The login page."""

from django.conf import settings
from django.contrib.auth.forms import AuthenticationForm
from django.contrib.auth.views import LoginView
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase

from controlplane.accounts import services
from controlplane.accounts.forms import LoginForm

LANGUAGE_COOKIE_AGE_S = 365 * 24 * 3600


class Login(LoginView):
    """Django's login with counted tries: while a wait is on, 429 and how long, whatever the name and password."""

    template_name = "accounts/login.html"
    authentication_form = LoginForm
    redirect_authenticated_user = True

    def post(self, request: HttpRequest, *args: str, **kwargs: object) -> HttpResponse:
        name, address = request.POST.get("username", ""), _address(request)
        try:
            services.claim_try(username=name, address=address)
        except services.TooManyTries as problem:
            form = LoginForm(request, initial={"username": name})
            response: HttpResponse = self.render_to_response(self.get_context_data(form=form, problem=problem))
            response.status_code = problem.status
            response["Retry-After"] = str(problem.extra["wait_s"])
            return response
        return super().post(request, *args, **kwargs)

    def form_valid(self, form: AuthenticationForm) -> HttpResponse:
        user = form.get_user()
        services.forget_tries(username=form.cleaned_data["username"], address=_address(self.request))
        response = super().form_valid(form)
        remember_language(response, user.language)
        return response


def remember_language(response: HttpResponseBase, language: str) -> None:
    """The locale middleware reads the cookie, also on the login page; "" goes back to what the browser asks for."""
    name = settings.LANGUAGE_COOKIE_NAME
    if language:
        response.set_cookie(
            name, language, max_age=LANGUAGE_COOKIE_AGE_S, samesite="Lax", secure=settings.SECURE_COOKIES, httponly=True
        )
    else:
        response.delete_cookie(name, samesite="Lax")


def _address(request: HttpRequest) -> str:
    return str(request.META.get("REMOTE_ADDR", ""))
