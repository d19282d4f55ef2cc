"""The value lab: what a policy and its value estimates look like from inside."""
