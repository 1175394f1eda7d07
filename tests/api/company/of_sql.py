"""Accepted expressions: SQL."""

from __future__ import annotations

import polars as pl

from tests.api.company.columns import takes

_SQL = """
f / 3; i / 3; f % 3; i % 3; i // 3; div(i, 3); mod(i, 3); f + 1; f * i / 3; -f; i & 3; i | 3; pi() * f
abs(f); round(f / 3, 2); ceil(f); floor(f); sqrt(f); cbrt(f); exp(f); ln(f); log(f, 3);
log2(f); log10(f)
log1p(f); pow(f, 2); power(f, 0.5); sign(f); sin(f); cos(f); tan(f); atan2(f, i); degrees(f); radians(f)
upper(s); lower(s); length(s); octet_length(s); bit_length(s); concat(s, k);
concat_ws('-', s, k); s || k
left(s, 1); right(s, 1); substr(s, 1, 2); trim(s); ltrim(s); rtrim(s); replace(s, 'a', 'x'); reverse(s)
starts_with(s, 'a'); ends_with(s, 'a'); strpos(s, 'b'); initcap(s); regexp_like(s, 'a'); s rlike 'a'
s like 'a%'; s not like '%b'; s ilike 'A_'; s ~ 'a'; split_part(s, 'b', 1); string_to_array(s, 'b')
i in (1, 2); i not in (1, 2); s in ('a', 'b'); f between 0 and 1; s is null; s is not null; f <=> g
coalesce(f, i, 0); nullif(i, 1); ifnull(f, 0); greatest(f, i); least(f, i, 0); f is distinct from g
case when f > 1 then f / 3 else 0 end; case i when 1 then 'a' else 'b' end; if(f > 1, 1, 2)
cast(i as double) / 3; i::varchar; f = 'inf'::double; not b; b and f > 1; b or f > 1;
s = 'a'; bit_count(i)
date_part('year', at); extract(month from at); at + interval '1 day'; strftime(at, '%Y')
timestamp '2026-01-01 00:00:00' < at; date '2026-01-01' < day; normalize(s); st.b / 3
array_length(li); array_sum(li); array_contains(li, 1); array_get(li, 1); array_reverse(li)
array_unique(li); array_to_string(ls, ','); li[1]
"""
takes(
    "pl.sql_expr", *(pl.sql_expr(text) for text in _SQL.replace("\n", ";").split(";") if text.strip())
)
