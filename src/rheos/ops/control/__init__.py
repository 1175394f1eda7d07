"""Finding a running job from any process, and sending it commands.

`registry` and `processes` find jobs and their drivers, also those that have ended. `job_list` lists
them for commands and REST. `commands` is the client of the control socket, `server` its server in the
driver. `driver_note` and `standby_driver` prevent a second driver from running the same job. `job_logs`
sets up logging in a driver and stores it. `watermark_delay` finds what holds back a watermark.
`controlled_jobs` and `picture` show a job in a notebook. `metrics_port`, `otlp_export` and
`alert_webhook` send metrics and alerts.
"""
