"""How any process finds a running job and commands it.

`registry` and `processes` find jobs and their drivers, `ended_jobs` those that have ended, `job_list`
lists them for commands and REST. `commands` is the client of the control socket, `server` its server
in the driver. `driver_note` and `standing_by` keep a second driver from running the same job.
`job_logs` sets up logging in a driver and stores it, `held_back` finds what holds back a watermark,
`picture` and `live_display` show a job in a notebook. `metrics_port`, `otlp_export` and
`alert_webhook` send metrics and alerts.
"""
