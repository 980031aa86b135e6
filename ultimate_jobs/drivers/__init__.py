"""Where rows live.

``base`` is the contract: per verb, what is atomic, what it is fenced on, and what a miss answers.
``handler`` answers the driver in use. ``postgres`` is the implementation: statements in files,
one door to the database, and a mapper of a few lines per statement.

Whatever process dies, rows decide: a claim holds until its deadline unless its worker shows signs
of life, and every later write names the claim it belongs to. A dead process therefore delays its
jobs by one lease and changes nothing after it.
"""
