"""What tests of jobs, and of what jobs are made of, can use."""
