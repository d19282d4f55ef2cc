"""The value lab: what an algorithm's estimates are worth."""
