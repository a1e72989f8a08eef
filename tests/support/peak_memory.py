"""`python -m support.peak_memory JOB` or `... TRIGGER export`: work a bulk job through, or export; prints bytes.

They are the peak of resident memory, after those of the export.
"""

import re
import sys
from pathlib import Path

from workorders.core.bulk import runner
from workorders.core.history import work_orders
from workorders.core.history.filters import Filter
from workorders.core.postgres.connection import connect
from workorders.kafka.client.secrets import JobSecrets


def main(wanted: str, is_export: str = "") -> None:
    """Work the job through, or export the work orders of the trigger."""
    with connect(JobSecrets.from_environment().database_url) as connection:
        if not is_export:
            job = runner.run_job(connection, int(wanted))
            if job.done != job.total:
                sys.exit(str(job))
        else:
            print(sum(map(len, work_orders.export_parts(connection, Filter(trigger=wanted)))))
    # Not `ru_maxrss`: that of a child begins with what its parent had, which made the work orders.
    (peak_kib,) = re.findall(
        r"^VmHWM:\s+(\d+) kB$", Path("/proc/self/status").read_text(encoding="ascii"), re.MULTILINE
    )
    print(int(peak_kib) * 1024)


if __name__ == "__main__":
    main(*sys.argv[1:])
