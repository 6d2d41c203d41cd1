from django.urls import path

from controlplane.ops import views

app_name = "ops"
urlpatterns = [path("", views.event_list, name="event_list")]
