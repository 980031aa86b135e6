"""A project with an admin site of its own, under another name and address, and no other."""

from __future__ import annotations

from django.contrib.admin import AdminSite
from django.urls import path

from ultimate_jobs.admin import register

site = AdminSite(name="backstage")
register(site)

urlpatterns = [path("backstage/", site.urls)]
