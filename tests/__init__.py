"""The tests, one folder per package of the app."""
