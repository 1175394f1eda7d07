"""Accepted expressions: strings, bytes and times."""

from __future__ import annotations

import datetime as dt

import polars as pl
from polars import col, lit

from tests.api.company.columns import DU, LS, OFF, TM, TZ, C, D, F, J, K, S, T, U, Y, Z, each, takes

# --- text and bytes -------------------------------------------------------------------------------

each(
    "str",
    "len_bytes len_chars normalize reverse to_lowercase to_titlecase to_uppercase escape_regex",
    S,
)
each("str", "strip_chars strip_chars_end strip_chars_start", S)
for _name in ("strip_chars", "strip_chars_end", "strip_chars_start", "strip_prefix", "strip_suffix"):
    takes(f"str.{_name}", getattr(S.str, _name)("a"), getattr(S.str, _name)(K))
takes("str.contains", S.str.contains("a|b"), S.str.contains(K), S.str.contains("a", literal=True))
takes("str.contains", lit("abc").str.contains(K))
takes("str.contains_any", S.str.contains_any(["a", "b"]))
takes("str.count_matches", S.str.count_matches("a"), S.str.count_matches(K))
takes("str.decode", Z.str.decode("hex", strict=False), Z.str.decode("base64", strict=False))
takes("str.encode", S.str.encode("hex"))
takes("str.ends_with", S.str.ends_with("a"), S.str.ends_with(K))
takes("str.starts_with", S.str.starts_with("a"), S.str.starts_with(K))
takes("str.extract", S.str.extract("(a)(b)?"), S.str.extract(K, 0))
takes("str.extract_all", S.str.extract_all("a|b"), S.str.extract_all(K))
takes("str.extract_groups", S.str.extract_groups("(?<x>a)(b)?"))
takes("str.extract_many", S.str.extract_many(["a", "b"]), S.str.extract_many(LS))
takes("str.find", S.str.find("b"), S.str.find(K))
takes("str.find_many", S.str.find_many(["a", "b"]), S.str.find_many(LS))
takes("str.head", S.str.head(2), S.str.head(U))
takes("str.tail", S.str.tail(2), S.str.tail(J))
takes("str.slice", S.str.slice(1, 2), S.str.slice(U, J.abs()), lit("abc").str.slice(U))
takes("str.json_decode", col("json").str.json_decode(pl.Struct({"a": pl.Float64, "b": pl.String})))
takes(
    "str.json_path_match",
    col("json").str.json_path_match("$.a"),
    col("json").str.json_path_match(col("path")),
)
takes("str.pad_end", S.str.pad_end(5), S.str.pad_end(U))
takes("str.pad_start", S.str.pad_start(5, "x"), S.str.pad_start(U))
takes("str.zfill", Z.str.zfill(5), Z.str.zfill(U))
takes("str.replace", S.str.replace("a", "x"), S.str.replace("a", K), S.str.replace("a|b", K))
takes("str.replace", S.str.replace("(a)", "$1$1"), S.str.replace("a", "x", literal=True))
takes(
    "str.replace_all",
    S.str.replace_all("a", "x"),
    S.str.replace_all("a", K),
    S.str.replace_all("a|b", K),
)
takes("str.replace_many", S.str.replace_many(["a", "b"], ["x", "y"]), S.str.replace_many({"a": "b"}))
takes(
    "str.split",
    S.str.split("b"),
    S.str.split(K),
    S.str.split("b", inclusive=True),
    lit("abc").str.split(K),
)
takes("str.split_exact", S.str.split_exact("b", 1), S.str.split_exact(K, 1))
takes("str.splitn", S.str.splitn("b", 2), S.str.splitn(K, 2))
_WHEN = col("when").str
takes("str.strptime", _WHEN.strptime(pl.Datetime, "%Y-%m-%d %H:%M:%S", strict=False))
takes(
    "str.to_date",
    _WHEN.to_date("%Y-%m-%d", strict=False),
    _WHEN.to_date("%F", strict=False, exact=False),
)
takes("str.to_datetime", _WHEN.to_datetime("%Y-%m-%d %H:%M:%S", strict=False, time_unit="ms"))
takes(
    "str.to_datetime",
    _WHEN.to_datetime("%F %T", strict=False, time_zone="Europe/Berlin", ambiguous="earliest"),
)
takes("str.to_time", _WHEN.to_time("%H:%M", strict=False))
takes("str.to_decimal", Z.str.to_decimal(scale=2))
takes(
    "str.to_integer", Z.str.to_integer(strict=False), Z.str.to_integer(base=U.clip(2, 36), strict=False)
)
takes("pl.concat_str", pl.concat_str(S, K, separator="-"), pl.concat_str(F, S, ignore_nulls=True))
takes("pl.concat_str", pl.concat_str(S, lit("x")), pl.concat_str(C, S))
takes("pl.format", pl.format("{}-{}", S, F), pl.format("{}", C))
takes("bin.contains", Y.bin.contains(b"a"), Y.bin.contains(Y))
takes("bin.decode", Y.bin.decode("hex", strict=False))
takes("bin.encode", Y.bin.encode("base64"))
takes("bin.ends_with", Y.bin.ends_with(b"a"))
takes("bin.starts_with", Y.bin.starts_with(Y.bin.head(1)))
takes("bin.get", Y.bin.get(0, null_on_oob=True), Y.bin.get(U, null_on_oob=True))
takes("bin.head", Y.bin.head(1), Y.bin.head(U))
takes("bin.tail", Y.bin.tail(1), Y.bin.tail(U))
takes("bin.slice", Y.bin.slice(1, 1), Y.bin.slice(U, 1))
takes("bin.size", Y.bin.size(), Y.bin.size("kb"))
takes("bin.reinterpret", col("y8").bin.reinterpret(dtype=pl.Float64))

# --- time -----------------------------------------------------------------------------------------

each(
    "dt",
    "century date day days_in_month hour is_leap_year iso_year microsecond millennium millisecond"
    " minute month month_end month_start nanosecond ordinal_day quarter second time timestamp "
    "epoch week weekday year to_string",
    T,
    TZ,
)
each("dt", "base_utc_offset dst_offset", TZ)
_TOTALS = "days hours microseconds milliseconds minutes nanoseconds seconds"
for _name in (f"total_{unit}" for unit in _TOTALS.split()):
    takes(f"dt.{_name}", getattr(DU.dt, _name)(), getattr(DU.dt, _name)(fractional=True))
takes("dt.second", T.dt.second(fractional=True))
takes(
    "dt.add_business_days",
    D.dt.add_business_days(3, roll="forward"),
    D.dt.add_business_days(J, roll="forward"),
)
takes("dt.add_business_days", D.dt.add_business_days(1, roll="forward", holidays=[dt.date(2026, 1, 1)]))
takes(
    "dt.is_business_day", D.dt.is_business_day(), D.dt.is_business_day(holidays=[dt.date(2026, 1, 1)])
)
takes(
    "pl.business_day_count",
    pl.business_day_count(D, dt.date(2026, 6, 1)),
    pl.business_day_count(D, T.dt.date()),
)
takes("dt.cast_time_unit", T.dt.cast_time_unit("ms"))
takes("dt.combine", D.dt.combine(dt.time(1)), D.dt.combine(TM))
takes("dt.convert_time_zone", TZ.dt.convert_time_zone("Asia/Tokyo"))
takes(
    "dt.offset_by",
    T.dt.offset_by("1mo"),
    T.dt.offset_by(OFF),
    lit(dt.datetime(2026, 1, 31)).dt.offset_by(OFF),
)
takes(
    "dt.replace",
    T.dt.replace(year=2020),
    T.dt.replace(day=U.clip(1, 28)),
    D.dt.replace(month=U.clip(1, 12), day=1),
)
takes(
    "dt.replace_time_zone",
    T.dt.replace_time_zone("Europe/Berlin", ambiguous="earliest", non_existent="null"),
)
takes(
    "dt.replace_time_zone",
    T.dt.replace_time_zone("Europe/Berlin", ambiguous=col("amb"), non_existent="null"),
)
takes("dt.round", T.dt.round("7m"), T.dt.round(OFF))
takes(
    "dt.truncate", T.dt.truncate("7m"), T.dt.truncate("1mo"), T.dt.truncate(OFF), TZ.dt.truncate("1d")
)
takes("dt.strftime", T.dt.strftime("%Y %j"))
takes(
    "dt.to_string", T.dt.to_string("%H"), DU.dt.to_string(), TM.dt.to_string(), TZ.dt.to_string("iso")
)
takes("pl.date", pl.date(2026, U.clip(1, 12), 1), pl.date(U + 2000, 1, 1))
takes("pl.datetime", pl.datetime(2026, U.clip(1, 12), 1, U.clip(0, 23)))
takes("pl.time", pl.time(U.clip(0, 23), 1))
takes(
    "pl.duration",
    pl.duration(days=U, seconds=F),
    pl.duration(hours=0.1, minutes=U),
    pl.duration(milliseconds=F),
)
takes("pl.date_ranges", pl.date_ranges(dt.date(2026, 1, 1), D))
takes("pl.datetime_ranges", pl.datetime_ranges(dt.datetime(2026, 1, 1), T, interval="1mo"))
takes("pl.time_ranges", pl.time_ranges(dt.time(0), TM))
takes("pl.from_epoch", pl.from_epoch(J), pl.from_epoch(U, "d"), pl.from_epoch(J, "ms"))
