"""A small Django project with jobs that do next to nothing."""
