"""Replaces what identifies a cloud in a snapshot by pseudonyms; a key file has the mapping."""
