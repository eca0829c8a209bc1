"""`tidegate state get`: shows the value of one key, of a running job or of its last checkpoint."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import click

from tidegate.cli.command_line import JOB_ID
from tidegate.cli.errors import FAILED, reporting
from tidegate.cli.options import (
    address_definitions,
    client_of,
    configuration_options,
    job_manager_option,
    load_configuration,
    timeout_option,
)


@click.command("get")
@click.argument("job", type=JOB_ID)
@click.argument("name")
@click.argument("key")
@click.option(
    "--consistent",
    is_flag=True,
    help="The value of the last completed checkpoint; without it the one of now, which a failure may take back.",
)
@timeout_option(
    10.0, "How long to ask again while the state is not served, as when the job restarts.", click.FloatRange(min=0)
)
@job_manager_option
@configuration_options
@reporting
def get_state(
    job: str,
    name: str,
    key: str,
    consistent: bool,
    timeout_s: float,
    job_manager: str | None,
    config: Path | None,
    definitions: tuple[str, ...],
) -> None:
    """Show the value that a queryable state of a running job has for a key.

    NAME is that of set_queryable. KEY is text as it is, or JSON for several fields: '["UA", 7]'. The value is one line
    of JSON. A key without a value ends with exit code 1.
    """
    from tidegate.queryablestate import QueryableStateClient
    from tidegate.state_reader.rows import readable, to_json

    configuration = load_configuration(config, definitions, *address_definitions(job_manager))
    with (
        client_of(configuration, job_manager) as job_manager_client,
        QueryableStateClient._over(
            job_manager_client, job_manager_client.transport, job_manager_client.metadata
        ) as client,
    ):
        found = client.get_by_text(job, name, key, consistent=consistent, timeout_s=timeout_s)
    if found.checkpoint_id is not None:
        click.echo(f"checkpoint {found.checkpoint_id}", err=True)
    if not found.rows.num_rows:
        click.echo(f"error: state {name!r} has no value for key {key!r}", err=True)
        sys.exit(FAILED)
    field = found.rows.schema.field("value")
    (value,) = found.rows.column("value").to_pylist()
    click.echo(json.dumps(to_json(readable(value, field)), ensure_ascii=False))
