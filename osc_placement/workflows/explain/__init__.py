"""Why a query has no allocation candidates, and which changes give one."""
