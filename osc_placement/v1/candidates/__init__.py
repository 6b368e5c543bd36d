"""Commands about allocation candidates, and the options that describe a request."""
