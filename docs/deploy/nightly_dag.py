"""An Airflow DAG: one run a night over that day's folder, retried; a repeated run replaces its own output."""

from __future__ import annotations

from datetime import datetime, timedelta

from airflow.providers.standard.operators.bash import BashOperator
from airflow.sdk import DAG

with DAG(
    "wayeb_nightly",
    schedule="0 2 * * *",
    start_date=datetime(2026, 1, 1),
    catchup=False,
    max_active_runs=1,  # a state is used by one run at a time
    default_args={"retries": 3, "retry_delay": timedelta(minutes=10)},
):
    BashOperator(
        task_id="recognise",
        bash_command=(
            "wayeb run /srv/wayeb/patterns/fleet.sre --data s3://fleet/day={{ ds }}/ "
            "--out /srv/wayeb/found/ --state /srv/wayeb/state --json"
        ),
    )
