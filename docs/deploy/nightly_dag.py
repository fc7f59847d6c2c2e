"""An Airflow DAG: one run a night over the folder of the day before, retried; a repeated run replaces its own output.

Nights share a state, so they run one by one and in their order: one that fails holds up the next, and one that was
missed is caught up with.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from airflow.providers.standard.operators.bash import BashOperator
from airflow.sdk import DAG

with DAG(
    "wayeb_nightly",
    schedule="0 2 * * *",
    start_date=datetime(2026, 1, 1),  # the first night; every night since then is run
    catchup=True,
    max_active_runs=1,
    default_args={"depends_on_past": True, "retries": 3, "retry_delay": timedelta(minutes=10)},
):
    BashOperator(
        task_id="recognise",
        # The day before the run, in UTC. `ds` would be that day only where Airflow is set to have data intervals.
        bash_command=(
            "wayeb run /srv/wayeb/patterns/fleet.sre "
            "--data s3://fleet/day={{ macros.ds_add(data_interval_end | ds, -1) }}/ "
            "--out /srv/wayeb/found/ --state /srv/wayeb/state --json"
        ),
    )
