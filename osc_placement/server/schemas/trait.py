"""Schema of trait queries."""

from __future__ import annotations

from osc_placement.server.schemas import field, validation

QUERY = validation.Schema(field.closed({"name": field.STRING, "associated": field.STRING}))
