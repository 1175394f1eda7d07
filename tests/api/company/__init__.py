"""Every function of Polars that makes expressions: what is let through is the same in any company."""
