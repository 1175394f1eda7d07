"""Contract of formats, which convert payloads to rows of a schema, and rows to payloads."""
