"""Jobs whose every move is written to a file, and who wait for another file to appear."""
