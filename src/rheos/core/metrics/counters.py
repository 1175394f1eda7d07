"""Names of the counters that operators and connectors of Rheos keep. Operators need not declare them: a
counter to which nothing was added is zero."""

from __future__ import annotations

ENGINE_COUNTERS = frozenset(
    (
        *("after_silence", "after_switch", "ahead", "before_switch", "beyond_rounds", "brokers_away"),
        *(
            "cache_hits",
            "commits_failed",
            "compiled_rows",
            "compiled_slower",
            "connect_failures",
            "connections",
            "connections_evicted",
        ),
        *("connections_late", "connections_refused", "drift_paused_ms", "dropped_processing_timers"),
        *("delivered_late", "duplicates", "files_closed_early", "held_off", "late", "late_left"),
        *(
            "late_purged",
            "late_right",
            "looked_up",
            "lost_data",
            "outside_windows",
            "refused",
            "rejected",
            "remembered",
            "removed",
            "retries",
        ),
        *("senders_gone", "server_away", "skipped", "splits_found", "stale", "timeouts", "trimmed"),
    )
)
