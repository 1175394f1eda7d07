"""Accepted forms of each function, with constants and with columns where it accepts both."""

from tests.api.company import of_lists, of_sql, of_text_and_time, of_values
from tests.api.company.columns import ROW_WISE

__all__ = ["ROW_WISE", "of_lists", "of_sql", "of_text_and_time", "of_values"]
