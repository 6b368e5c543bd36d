"""Random input over a socket."""
