"""The shop's addresses."""

from __future__ import annotations

from django.urls import path

from testproject.shop import views

app_name = "shop"
urlpatterns = [
    path("orders/", views.create_order, name="create_order"),
    path("orders/<str:reference>/", views.show_order, name="show_order"),
    path("carrier/", views.carrier, name="carrier"),
]
