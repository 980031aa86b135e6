"""A small project around the app: it is the example, the demo and the home of the tests."""
