"""The verbs of ``manage.py jobs``, by what they are for; ``management/verb.py`` says what one is."""
