"""For humans: what is there, in words and in plain values.

``inspection`` reads through the ORM and answers plain, JSON-ready values; ``redaction`` decides
what an operator may see of an input. The commands print what these answer, and nothing else.
"""
