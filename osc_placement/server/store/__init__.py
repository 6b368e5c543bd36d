"""Where the state lives: in memory, or in an SQLite file.

``repository`` joins a state with its store; nobody else changes either.
"""
