"""Contract of formats: payloads into rows of a schema, and rows into payloads."""
