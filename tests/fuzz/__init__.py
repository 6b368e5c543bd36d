"""Whatever is sent to the server, over a socket."""
