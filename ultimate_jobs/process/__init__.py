"""How a long-running loop lives: what it waits for, what stops it, what it says.

Worker and relay are loops over the same parts: ``bell`` is a wait that can be ended, ``idle``
decides how long to wait between passes, ``wake`` listens for word of new work, ``pulse`` says that a
loop turns, ``signals`` turns SIGTERM into a stop and a second one into haste, ``cancel`` carries the
reason to whatever runs, ``log`` writes events.
"""
