"""Other libraries' algorithms on our environments; nothing is imported before it is asked for."""
