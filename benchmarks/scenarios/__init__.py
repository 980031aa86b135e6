"""One module for each kind of work; each function measures one row of the table of targets."""
