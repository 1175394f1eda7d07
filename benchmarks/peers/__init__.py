"""Programs of other systems with the meaning of those in `rheos.bench`, measured beside them."""
